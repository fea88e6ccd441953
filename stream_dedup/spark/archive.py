"""Fingerprints, pairs, clusters and the rows to keep of one DataFrame of news.

In: a DataFrame. Out: DataFrames. `Archive` does each step once and keeps what it made on the executors' disks, or, if
the session has a checkpoint directory, in it; then a lost executor does not fail the job. The order of the rows is the
order of arrival: that of the DataFrame's partitions, or of files. It is fixed by the first step, once and for all.
"""

import warnings
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import SecretStr

from stream_dedup.batch.keep import Keep, parse_keep
from stream_dedup.batch.pairs import BUCKET_LIMIT, CLUSTER_COLUMNS, KEEP_COLUMNS, PAIR_COLUMNS, Counts
from stream_dedup.errors import InputError, StreamDedupWarning, UsageError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.phrases import counted
from stream_dedup.settings import Settings
from stream_dedup.spark.blocks import schema_of
from stream_dedup.spark.candidates import (
    CHUNK_TYPES,
    CODE_TYPES,
    ENTRY_TYPES,
    EmitEntries,
    MakeChunks,
    PairBuckets,
    later_width,
)
from stream_dedup.spark.compare import (
    NEED_TYPES,
    PAIR_TYPES,
    PART_ITSELF,
    SENT_TYPES,
    VERIFIED_TYPES,
    AskForRows,
    CompareChunks,
    SendRows,
    unpack_pairs,
)
from stream_dedup.spark.components import DRIVER_EDGES, label
from stream_dedup.spark.items import (
    FINGERPRINT_TYPES,
    ITEM_TYPES,
    LINE,
    MERIT_TYPES,
    ListFingerprints,
    ListItems,
    ListMerits,
    NumberRows,
)
from stream_dedup.spark.parts import DATA_DTYPES, HEAD_TYPES, PART_TYPES, Head, Layout, MakeParts
from stream_dedup.spark.session import require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DECIDING = ("item", "fingerprint", "decision", "index")


def fingerprints(df: "DataFrame", settings: Settings | None = None) -> "DataFrame":
    """The fingerprint of each item: row, id, source, time (ms), line, signature, keys (0: none)."""
    return Archive(df, settings).fingerprints()


def pairs(df: "DataFrame", settings: Settings | None = None, *, bucket_limit: int = BUCKET_LIMIT) -> "DataFrame":
    """The near-duplicate pairs, with the columns and values of `find_pairs`, ordered by their rows."""
    return Archive(df, settings, bucket_limit=bucket_limit).pairs()


def clusters(
    df: "DataFrame",
    settings: Settings | None = None,
    *,
    keep: str | None = None,
    bucket_limit: int = BUCKET_LIMIT,
) -> "DataFrame":
    """The cluster of each item, in the order of the items: id, cluster (the id of its first item).

    With `keep`, as in `deduplicate`, also representative (the id of the item that stays) and keep (whether it is this).
    """
    return Archive(df, settings, bucket_limit=bucket_limit).clusters(keep)


def deduplicate(
    df: "DataFrame",
    settings: Settings | None = None,
    *,
    keep: str = "earliest",
    bucket_limit: int = BUCKET_LIMIT,
) -> "DataFrame":
    """The rows of `df` without near-duplicates: one row of each cluster, all columns unchanged.

    keep: the row of a cluster that stays: the `earliest` by the date of its item, the `first` row, the one with the
    `longest` body, or `source:NAME,NAME,...`, one of the first of these sites that has it. Of equal ones the earliest
    stays, of equal dates the first row. A site that no item has is warned of. Rows that hold no item are left out with
    a warning, as `Deduplicator.filter` does.
    """
    return Archive(df, settings, bucket_limit=bucket_limit).deduplicate(keep)


class Archive:
    """An archive of news and what was found in it. Each step is done when it is first asked for, and once.

    settings: those of the stream; the window does not count. bucket_limit: with how many of the earlier items that
    share its key an item is compared, the newest ones. driver_edges: up to how many edges the driver unites by itself.
    Raises ConfigError where PySpark is missing, UsageError for a value that is no DataFrame.
    """

    def __init__(
        self,
        df: "DataFrame",
        settings: Settings | None = None,
        *,
        bucket_limit: int = BUCKET_LIMIT,
        driver_edges: int = DRIVER_EDGES,
    ) -> None:
        require_pyspark()
        if not hasattr(df, "mapInArrow"):
            raise UsageError(
                f"{df!r:.80} is no DataFrame of Spark; read one with spark.read, such as spark.read.text(PATH)"
            )
        settings = settings or Settings()
        # Executors receive what decides, the salt instead of a file of this machine, and no password of a broker.
        self._settings = Settings.model_construct(**{name: getattr(settings, name) for name in _DECIDING})
        if salt := settings.fingerprint.secret("salt"):
            salted = settings.fingerprint.model_copy(update={"salt": SecretStr(salt), "salt_file": None})
            self._settings = self._settings.model_copy(update={"fingerprint": salted})
        self._df = df
        self._is_fixed = False
        self._bucket_limit = bucket_limit
        self._driver_edges = driver_edges

    # -- results -------------------------------------------------------------------------------------------

    def fingerprints(self) -> "DataFrame":
        """See `fingerprints`."""
        listed = ListFingerprints(self.layout, self._settings)
        return self._parts.mapInArrow(listed, schema_of(FINGERPRINT_TYPES)).orderBy("row")

    def pairs(self) -> "DataFrame":
        """See `pairs`."""
        rows = self._verified.mapInArrow(unpack_pairs, schema_of(PAIR_TYPES))
        return rows.orderBy("b_row", "a_row").select(*PAIR_COLUMNS)

    def clusters(self, keep: str | None = None) -> "DataFrame":
        """See `clusters`."""
        from pyspark.sql import functions as f

        items = self._items.select("row", "id")
        clustered = items.join(self._labels, "row", "left").withColumn("root", f.coalesce("root", "row"))
        names = {"cluster": "root"}
        if keep is not None:
            clustered = clustered.join(self._kept(self._keep(keep)), "root", "left")
            clustered = clustered.withColumn("kept", f.coalesce("kept", "row"))
            clustered = clustered.withColumn("keep", f.col("kept") == f.col("row"))
            names["representative"] = "kept"
        for name, row in names.items():
            clustered = clustered.join(items.select(f.col("row").alias(row), f.col("id").alias(name)), row)
        return clustered.orderBy("row").select(*(CLUSTER_COLUMNS if keep is None else KEEP_COLUMNS))

    def deduplicate(self, keep: str = "earliest") -> "DataFrame":
        """See the function `deduplicate`. Asked after other results, it starts over, unless `fix` was called first."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import LongType, StructField, StructType

        chosen = self._keep(keep)
        self.fix()
        if self.layout.bad:
            _warn(f"{counted(self.layout.bad, 'row')} without an item left out, such as {self.bad_examples()[0]}")
        for name in self.absent_sources(keep):
            _warn(f"no item has the source {name!r} of keep = {keep!r}")
        members = self._members
        dropped = members.join(self._kept(chosen), "root").where("row != kept").select("row")
        lines = self._items.join(dropped, "row", "left_anti").select(f.col("line").alias(LINE))
        schema = StructType([*self._df.schema.fields, StructField(LINE, LongType())])
        numbered = self._df.mapInArrow(NumberRows(self.layout), schema)
        return numbered.join(lines, LINE, "left_semi").orderBy(LINE).drop(LINE)

    def absent_sources(self, keep: str) -> tuple[str, ...]:
        """The sources of "source:NAME,..." that no item has."""
        chosen = self._keep(keep)
        if not chosen.sources:
            return ()
        return chosen.absent({row["rank"] for row in self._merits(chosen).select("rank").distinct().collect()})

    def counts(self) -> Counts:
        """What was found."""
        from pyspark.sql import functions as f

        chunks = self._chunks.agg(f.sum("hot"), f.sum("left_out")).first()
        verified = self._verified.agg(f.sum("compared"), f.sum("pairs")).first()
        labels = self._labels.agg(f.count("*"), f.count_distinct("root")).first()
        hot, left_out = (int(value or 0) for value in chunks or ())
        compared, found = (int(value or 0) for value in verified or ())
        clustered, roots = (int(value or 0) for value in labels or ())
        items, bad = self.layout.size, self.layout.bad
        return Counts(items, bad, found, roots, clustered + roots, compared, hot, left_out)

    def bad_examples(self) -> list[str]:
        """The first bad lines: place and reason."""
        return [f"{number}:{line}: {reason}" for number, line, reason in self.layout.examples]

    def fix(self) -> None:
        """Keep a copy of the rows, so that each row stays at its place; the rows of a shuffle may come in any order."""
        if not self._is_fixed:
            self._df, self._is_fixed = _fixed(self._df), True
            for step in ("_parts", "layout", "_chunks", "_verified", "_labels"):
                self.__dict__.pop(step, None)

    # -- steps ---------------------------------------------------------------------------------------------

    @cached_property
    def _parts(self) -> "DataFrame":
        """Step 1: decode and fingerprint."""
        return _fixed(self._df.mapInArrow(MakeParts(self._settings), schema_of(PART_TYPES)))

    @cached_property
    def layout(self) -> Layout:
        """Step 2: number the items."""
        layout = Layout.of(Head(*row) for row in self._parts.select(*HEAD_TYPES).toLocalIterator())
        if layout.size >= 2**32:
            raise InputError(f"{layout.size:,} items are too many; at most 4,294,967,295 can be compared")
        return layout

    @cached_property
    def _chunks(self) -> "DataFrame":
        """Step 3: the candidate pairs."""
        layout, fingerprint = self.layout, self._settings.fingerprint
        width = later_width(layout.size)
        entries = self._parts.select("part", "keys").mapInArrow(
            EmitEntries(layout, fingerprint), schema_of(ENTRY_TYPES)
        )
        codes = _by("range", entries).mapInArrow(PairBuckets(self._bucket_limit, width), schema_of(CODE_TYPES))
        chunks = _by("range", codes).mapInArrow(MakeChunks(layout.size, width, fingerprint), schema_of(CHUNK_TYPES))
        return _fixed(chunks)

    @cached_property
    def _verified(self) -> "DataFrame":
        """Step 4: decide them."""
        from pyspark.sql import functions as f

        layout, settings = self.layout, self._settings
        chunks = self._chunks.select("chunk", "end", "codes").where("count > 0")
        needs = chunks.select("chunk", "codes").mapInArrow(AskForRows(layout), schema_of(NEED_TYPES))
        parts = self._parts.select("part", f.lit(PART_ITSELF).cast("bigint").alias("chunk"), *DATA_DTYPES)
        asked = parts.unionByName(needs, allowMissingColumns=True)
        sent = _by("part", asked, "chunk").mapInArrow(SendRows(layout, settings), schema_of(SENT_TYPES))
        whole = chunks.withColumn("first", f.lit(PART_ITSELF).cast("bigint"))
        work = _by("chunk", whole.unionByName(sent, allowMissingColumns=True), "first")
        return _fixed(work.mapInArrow(CompareChunks(settings), schema_of(VERIFIED_TYPES)))

    @cached_property
    def _labels(self) -> "DataFrame":
        """Step 5: the clusters."""
        return label(self._verified.select("later", "earlier"), self._driver_edges)

    @property
    def _members(self) -> "DataFrame":
        """Row and root of the items in clusters of two or more."""
        from pyspark.sql import functions as f

        return self._labels.select("row", "root").union(
            self._labels.select(f.col("root").alias("row"), "root").distinct()
        )

    def _keep(self, keep: str) -> Keep:
        chosen = parse_keep(keep)
        chosen.check(Scheme(self._settings.fingerprint))
        return chosen

    def _merits(self, keep: Keep) -> "DataFrame":
        parts = self._parts.select("part", *DATA_DTYPES)
        return parts.mapInArrow(ListMerits(self.layout, self._settings, keep), schema_of(MERIT_TYPES))

    def _kept(self, keep: Keep) -> "DataFrame":
        """The root of each cluster of two or more, and the row that stays."""
        from pyspark.sql import functions as f

        members = self._members.join(self._merits(keep), "row")
        order = f.struct("rank", "merit_time", "row")
        return members.groupBy("root").agg(f.min_by("row", order).alias("kept"))

    @property
    def _items(self) -> "DataFrame":
        parts = self._parts.select("part", *DATA_DTYPES)
        return parts.mapInArrow(ListItems(self.layout, self._settings), schema_of(ITEM_TYPES))


def _by(name: str, rows: "DataFrame", *then: str) -> "DataFrame":
    """The rows, each group in one partition, sorted by group and `then`."""
    return rows.repartition(name).sortWithinPartitions(name, *then)


def _warn(text: str) -> None:
    warnings.warn(text, StreamDedupWarning, stacklevel=3)


def _fixed(rows: "DataFrame") -> "DataFrame":
    """Do the work now and keep its result on disk, in the checkpoint directory if the session has one."""
    from pyspark import StorageLevel

    if rows.sparkSession.sparkContext.getCheckpointDir() is not None:
        return rows.checkpoint()
    return rows.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
