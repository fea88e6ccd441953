"""The steps of a Spark job over one DataFrame of news, and how its rows are shuffled: fingerprints, pairs, clusters.

In: a DataFrame. Out: DataFrames. `Archive` does each step once and keeps what it made on the executors' disks, or, if
the session has a checkpoint directory, in it; then a lost executor does not fail the job. The order of the rows is the
order of arrival: that of files, or of the DataFrame's partitions, of which `Archive` keeps a copy.
"""

import warnings
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import SecretStr

from stream_dedup.batch.clusters import Keep, parse_keep
from stream_dedup.batch.pairs import BUCKET_LIMIT, CLUSTER_COLUMNS, KEEP_COLUMNS, PAIR_COLUMNS, Counts
from stream_dedup.errors import StreamDedupWarning, UsageError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.phrases import counted
from stream_dedup.settings import Settings, load_settings
from stream_dedup.spark.items import (
    BLOCK,
    FILE,
    FINGERPRINT_TYPES,
    INPUT,
    ITEM_TYPES,
    MERIT_TYPES,
    PLACE,
    ROW,
    ListFingerprints,
    ListMerits,
    MakeItems,
    NumberRows,
    Places,
    highest_before,
    schema_of,
)
from stream_dedup.spark.pairing import (
    CODE_TYPES,
    ENTRY_TYPES,
    ITSELF,
    LABEL_TYPES,
    PAIR_TYPES,
    ComparePairs,
    EmitEntries,
    PairBuckets,
    reduce_pairs,
    roots_of,
)
from stream_dedup.spark.session import require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Bad lines that are named; all are counted.
_EXAMPLES = 5
_DECIDING = ("item", "fingerprint", "decision", "index")


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
    share its key an item is compared, the newest ones. Raises ConfigError where PySpark is missing, UsageError for a
    value that is no DataFrame.
    """

    def __init__(self, df: "DataFrame", settings: Settings | None = None, *, bucket_limit: int = BUCKET_LIMIT) -> None:
        require_pyspark()
        if not hasattr(df, "mapInArrow"):
            raise UsageError(
                f"{df!r:.80} is no DataFrame of Spark; read one with spark.read, such as spark.read.text(PATH)"
            )
        settings = settings or load_settings()
        # Executors receive what decides, the salt instead of a file of this machine, and no password of a broker.
        self._settings = Settings.model_construct(**{name: getattr(settings, name) for name in _DECIDING})
        if salt := settings.fingerprint.secret("salt"):
            salted = settings.fingerprint.model_copy(update={"salt": SecretStr(salt), "salt_file": None})
            self._settings = self._settings.model_copy(update={"fingerprint": salted})
        self._df = df
        self._bucket_limit = bucket_limit

    # -- results -------------------------------------------------------------------------------------------

    def fingerprints(self) -> "DataFrame":
        """The fingerprint of each item: row, id, time (ms), line, signature, keys (0: none)."""
        listed = ListFingerprints(self._watermarks, self._settings)
        return self._items.mapInArrow(listed, schema_of(FINGERPRINT_TYPES)).orderBy("row")

    def pairs(self) -> "DataFrame":
        """The near-duplicate pairs, with the columns and values of `find_pairs`, ordered by their rows."""
        return self._pairs.orderBy("b_row", "a_row").select(*PAIR_COLUMNS)

    def clusters(self, keep: str | None = None) -> "DataFrame":
        """The cluster of each item, in the order of the items: id, cluster (the id of its first item).

        With `keep`, as in `deduplicate`, also representative (the id of the item that stays) and keep (whether it is
        this one).
        """
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
        """See the function `deduplicate`."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import LongType, StructField, StructType

        chosen = self._keep(keep)
        counts = self.counts()
        if counts.bad:
            _warn(f"{counted(counts.bad, 'row')} without an item left out, such as {self.bad_examples()[0]}")
        for name in self.absent_sources(keep):
            _warn(f"no item has the source {name!r} of keep = {keep!r}")
        dropped = self._members.join(self._kept(chosen), "root").where("row != kept").select("row")
        rows = self._items.join(dropped, "row", "left_anti").select(f.col("row").alias(ROW))
        schema = StructType(
            [*(field for field in self._df.schema.fields if field.name not in PLACE), StructField(ROW, LongType())]
        )
        numbered = self._placed.mapInArrow(NumberRows(self.places), schema)
        return numbered.join(rows, ROW, "left_semi").orderBy(ROW).drop(ROW)

    def absent_sources(self, keep: str) -> tuple[str, ...]:
        """The sources of "source:NAME,..." that no item has."""
        chosen = self._keep(keep)
        if not chosen.sources:
            return ()
        return chosen.absent({row["rank"] for row in self._merits(chosen).select("rank").distinct().collect()})

    def counts(self) -> Counts:
        """What was found."""
        from pyspark.sql import functions as f

        limited = self._codes.agg(f.sum("hot"), f.sum("left_out")).first()
        labels = self._labels.agg(f.count("*"), f.count_distinct("root")).first()
        hot, left_out = (int(value or 0) for value in limited or ())
        clustered, roots = (int(value or 0) for value in labels or ())
        items, bad = self._items.count(), self._lines.count() - self._items.count()
        compared, pairs = self._candidates.count(), self._pairs.count()
        return Counts(items, bad, pairs, roots, clustered + roots, compared, hot, left_out)

    def bad_examples(self) -> list[str]:
        """The first bad lines: number of the file (from 0), line and reason."""
        bad = self._lines.where("reason is not null").select("row", "reason").orderBy("row").limit(_EXAMPLES).collect()
        return [":".join(map(str, self.places.line(row))) + f": {reason}" for row, reason in bad]

    # -- steps ---------------------------------------------------------------------------------------------

    @cached_property
    def _placed(self) -> "DataFrame":
        """The records with their places. Without files it is a copy, because a shuffle may give other partitions."""
        from pyspark.sql import functions as f

        if FILE in self._df.columns:
            return self._df
        rows = _fixed(self._df)
        return rows.withColumns({INPUT: f.lit(0), FILE: f.lit(""), BLOCK: f.spark_partition_id().cast("bigint")})

    @cached_property
    def places(self) -> Places:
        """Step 1: number the lines."""
        return Places.of(self._placed.groupBy(*PLACE).count().collect())

    @cached_property
    def _lines(self) -> "DataFrame":
        """Step 2: decode and fingerprint."""
        made = MakeItems(self.places, self._settings)
        return _fixed(self._placed.mapInArrow(made, schema_of(ITEM_TYPES)))

    @property
    def _items(self) -> "DataFrame":
        return self._lines.where("reason is null")

    @cached_property
    def _codes(self) -> "DataFrame":
        """Step 3: pair the items of each bucket."""
        made = EmitEntries(self._settings.fingerprint)
        entries = self._items.select("row", "keys").mapInArrow(made, schema_of(ENTRY_TYPES))
        sorted_entries = entries.repartition("bucket").sortWithinPartitions("bucket")
        return _fixed(sorted_entries.mapInArrow(PairBuckets(self._bucket_limit), schema_of(CODE_TYPES)))

    @cached_property
    def _candidates(self) -> "DataFrame":
        return _fixed(self._codes.where("later is not null").select("later", "earlier").distinct())

    @cached_property
    def _pairs(self) -> "DataFrame":
        """Step 4: decide them."""
        from pyspark.sql import functions as f

        data = ("id", "signature", "body")
        earlier = self._candidates.join(self._items.select(f.col("row").alias("earlier"), *data), "earlier")
        later = self._items.select(f.col("row").alias("later"), f.lit(ITSELF).alias("earlier"), *data, "words")
        later = later.join(self._candidates.select("later").distinct(), "later", "left_semi")
        work = later.unionByName(earlier, allowMissingColumns=True)
        work = work.repartition("later").sortWithinPartitions("later", "earlier")
        return _fixed(work.mapInArrow(ComparePairs(self._settings), schema_of(PAIR_TYPES)))

    @cached_property
    def _labels(self) -> "DataFrame":
        """Step 5: the clusters: row and root of all rows but the roots themselves."""
        from pyarrow import table

        edges = self._pairs.select("b_row", "a_row").mapInArrow(reduce_pairs, schema_of(LABEL_TYPES)).toArrow()
        rows, roots = roots_of(edges["row"].to_numpy(), edges["root"].to_numpy())
        return self._df.sparkSession.createDataFrame(table({"row": rows, "root": roots}))

    @property
    def _members(self) -> "DataFrame":
        """Row and root of the items in clusters of two or more."""
        from pyspark.sql import functions as f

        return self._labels.select("row", "root").union(
            self._labels.select(f.col("root").alias("row"), "root").distinct()
        )

    @cached_property
    def _watermarks(self) -> list[int]:
        from pyspark.sql import functions as f

        highest = self._items.groupBy("place").agg(f.max("time")).collect()
        return highest_before(dict(highest), len(self.places.places))

    def _keep(self, keep: str) -> Keep:
        return parse_keep(keep, Scheme(self._settings.fingerprint))

    def _merits(self, keep: Keep) -> "DataFrame":
        listed = ListMerits(self._watermarks, self._settings, keep)
        return self._items.select("row", "place", "signature").mapInArrow(listed, schema_of(MERIT_TYPES))

    def _kept(self, keep: Keep) -> "DataFrame":
        """The root of each cluster of two or more, and the row that stays."""
        from pyspark.sql import functions as f

        members = self._members.join(self._merits(keep), "row")
        order = f.struct("rank", "merit_time", "row")
        return members.groupBy("root").agg(f.min_by("row", order).alias("kept"))


def _warn(text: str) -> None:
    warnings.warn(text, StreamDedupWarning, stacklevel=3)


def _fixed(rows: "DataFrame") -> "DataFrame":
    """Do the work now and keep its result on disk, in the checkpoint directory if the session has one."""
    from pyspark import StorageLevel

    if rows.sparkSession.sparkContext.getCheckpointDir() is not None:
        return rows.checkpoint()
    return rows.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
