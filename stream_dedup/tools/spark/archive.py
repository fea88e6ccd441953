"""The steps of a Spark job over a DataFrame of news (fingerprints, pairs, clusters), and how rows are shuffled between
them.

`Archive` does each step once, and keeps the result on the executors' disks. If the session has a checkpoint directory,
the result goes there, and a lost executor does not fail the job. The order of arrival is the order of the rows: that of
files, or of the DataFrame's partitions, of which `Archive` keeps a copy.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyarrow import table
from pydantic import SecretStr
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StructField, StructType

from stream_dedup.dedup.boilerplate import SIGHTINGS
from stream_dedup.errors import StreamDedupWarning, UsageError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.phrases import counted
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.batch.clusters import (
    CLUSTER_COLUMNS,
    LARGEST,
    LATEST,
    MERITS,
    Keep,
    Large,
    clusters_of,
    large,
    parse_keep,
)
from stream_dedup.tools.batch.pair_search import Codes, codes_of, rows_of
from stream_dedup.tools.batch.pairs import BUCKET_LIMIT, PAIR_COLUMNS, Counts
from stream_dedup.tools.spark import tasks
from stream_dedup.tools.spark.tasks import BLOCK, FILE, INPUT, PLACE, ROW, Places

# Bad lines that are shown; all are counted.
_EXAMPLES = 5
_DECIDING = ("item", "fingerprint", "decision", "index")


def deduplicate(
    df: DataFrame,
    settings: Settings | None = None,
    *,
    keep: str = "earliest",
    drop_new: bool = False,
    bucket_limit: int = BUCKET_LIMIT,
) -> DataFrame:
    """The rows of `df` without near-duplicates, all columns unchanged: of each cluster one row, and without `drop_new`
    those that have something new beside it.

    keep: the row of a cluster that stays: the `earliest` by the date of its item, the `first` row, the one with the
    `longest` body, or `source:NAME,NAME,...`, one of the first of these sites that has it. Ties go to the earliest
    date, then to the longer body. A warning names each site that no item has. Rows that hold no item are left out with
    a warning, as `Deduplicator.filter` does.
    """
    return Archive(df, settings, bucket_limit=bucket_limit).deduplicate(keep, drop_new=drop_new)


class Archive:
    """An archive of news, with its pairs and clusters. A step is done once, when its result is first needed.

    settings: those of the stream; the window does not count. bucket_limit: each item is compared with at most this many
    of the earlier items that share a key, the newest ones. Raises UsageError for a value that is not a DataFrame.
    """

    def __init__(self, df: DataFrame, settings: Settings | None = None, *, bucket_limit: int = BUCKET_LIMIT) -> None:
        if not hasattr(df, "mapInArrow"):
            raise UsageError(
                f"{df!r:.80} is no DataFrame of Spark; read one with spark.read, such as spark.read.text(PATH)"
            )
        settings = settings or load_settings()
        # Executors receive the deciding settings, the salt itself instead of a file of this machine, and no password.
        self._settings = Settings.model_construct(**{name: getattr(settings, name) for name in _DECIDING})
        if salt := settings.fingerprint.secret("salt"):
            salted = settings.fingerprint.model_copy(update={"salt": SecretStr(salt), "salt_file": None})
            self._settings = self._settings.model_copy(update={"fingerprint": salted})
        self._df = df
        self._bucket_limit = bucket_limit
        self._clusters: dict[str, DataFrame] = {}

    # -- results -------------------------------------------------------------------------------------------

    def pairs(self) -> DataFrame:
        """The near-duplicate pairs, with the columns and values of `find_pairs`, ordered by their rows."""
        return self._articles.where("is_pair").orderBy("b_row", "a_row").select(*PAIR_COLUMNS)

    def clusters(self, keep: str = "earliest", *, drop_new: bool = False) -> DataFrame:
        """The cluster of each item, in the order of the items, with the columns and values of `find_pairs`."""
        read = self._items.select("row", "id", "title", "source", "url", "time")
        clustered = read.join(self._clustered(keep), "row", "left").withColumns(
            {
                "kept": f.coalesce("kept", "row"),
                "first": f.coalesce("first", "row"),
                "new": f.coalesce("new", f.lit(False)),
            }
        )
        clustered = clustered.withColumn("keep", (f.col("kept") == f.col("row")) | (f.col("new") & f.lit(not drop_new)))
        date = f.date_format(f.timestamp_millis("time"), "yyyy-MM-dd'T'HH:mm:ss'Z'")
        clustered = clustered.withColumn("published", f.when(f.col("time").between(0, LATEST - 1), date))
        items, firsts = self._items.select("row", "id"), clustered.where("first = row").select("row")
        roots = items.join(firsts, "row").join(self._numbers(), "row")
        earliest = roots.groupBy("id").agg(f.min("row").alias("named"))
        name = f.when(f.col("row") == f.col("named"), f.col("id")).otherwise(f.format_string("%s (%d)", "id", "number"))
        names = {"story": ("first", roots.join(earliest, "id").select("row", name.alias("id")))}
        names["representative"] = "kept", items
        for column, (row, named) in names.items():
            clustered = clustered.join(named.select(f.col("row").alias(row), f.col("id").alias(column)), row)
        return clustered.orderBy("row").select(*CLUSTER_COLUMNS)

    def deduplicate(self, keep: str = "earliest", *, drop_new: bool = False) -> DataFrame:
        """See the function `deduplicate`."""
        counts = self.counts(keep)
        if counts.bad:
            _warn(f"{counted(counts.bad, 'row')} without an item left out, such as {self.bad_examples()[0]}")
        for name in self.absent_sources(keep):
            _warn(f"no item has the source {name!r} of keep = {keep!r}")
        dropped = self._clustered(keep).where(f.col("row") != f.col("kept"))
        dropped = dropped if drop_new else dropped.where("not new")
        rows = self._items.join(dropped.select("row"), "row", "left_anti").select(f.col("row").alias(ROW))
        schema = StructType(
            [*(field for field in self._df.schema.fields if field.name not in PLACE), StructField(ROW, LongType())]
        )
        numbered = self._placed.mapInArrow(partial(tasks.number_rows, self.places), schema)
        return numbered.join(rows, ROW, "left_semi").orderBy(ROW).drop(ROW)

    def largest(self, keep: str = "earliest") -> list[Large]:
        """The largest clusters."""
        clustered = self._clustered(keep)
        sizes = clustered.groupBy("kept").count().orderBy(f.desc("count"), "kept").limit(LARGEST).collect()
        found = []
        for kept, _ in sizes:
            members = (
                clustered.where(f.col("kept") == kept).select("row").join(self._items.select("row", "title"), "row")
            )
            titles = dict(members.collect())
            found.append(large(list(titles.values()), titles[kept]))
        return found

    def doubtful(self, keep: str = "earliest") -> list[tuple[str, str]]:
        """The first items with something new: their headlines, and those of their representatives."""
        some = self._clustered(keep).where("new").orderBy("row").limit(LARGEST)
        titles = self._items.select(f.col("row").alias("kept"), f.col("title").alias("of_kept"))
        named = some.join(self._items.select("row", "title"), "row").join(titles, "kept").orderBy("row")
        return [(row["title"], row["of_kept"]) for row in named.collect()]

    def absent_sources(self, keep: str) -> tuple[str, ...]:
        """The sources of "source:NAME,..." that no item has."""
        chosen = self._keep(keep)
        if not chosen.sources:
            return ()
        return chosen.absent({row["rank"] for row in self._merits(chosen).select("rank").distinct().collect()})

    def counts(self, keep: str = "earliest") -> Counts:
        """Count items, pairs and clusters."""
        of_codes = self._codes.agg(f.sum("hot"), f.sum("left_out")).first()
        hot, left_out = (int(value or 0) for value in of_codes or ())
        of_clusters = self._clustered(keep).agg(
            f.count_distinct("kept"), f.count("*"), f.coalesce(f.sum(f.col("new").cast("int")), f.lit(0))
        )
        clusters, clustered, new = of_clusters.first() or (0, 0, 0)
        items, bad = self._items.count(), self._lines.count() - self._items.count()
        compared, pairs = self._candidates.count(), self._articles.where("is_pair").count()
        return Counts(items, bad, pairs, clusters, clustered, new, compared, hot, left_out)

    def bad_examples(self) -> list[str]:
        """The first bad lines: number of the file (from 0), line and reason."""
        bad = self._lines.where("reason is not null").select("row", "reason").orderBy("row").limit(_EXAMPLES).collect()
        return [":".join(map(str, self.places.line(row))) + f": {reason}" for row, reason in bad]

    # -- steps ---------------------------------------------------------------------------------------------

    @cached_property
    def _placed(self) -> DataFrame:
        """The records with their places. Those of no file are copied, because a shuffle may change the partitions."""
        if FILE in self._df.columns:
            return self._df
        rows = _fixed(self._df)
        return rows.withColumns({INPUT: f.lit(0), FILE: f.lit(""), BLOCK: f.spark_partition_id().cast("bigint")})

    @cached_property
    def places(self) -> Places:
        """Step 1: number the lines."""
        return Places.of(self._placed.groupBy(*PLACE).count().collect())

    @cached_property
    def _lines(self) -> DataFrame:
        """Step 2: decode and fingerprint."""
        made = partial(tasks.make_items, self.places, self._settings)
        return _fixed(_mapped(self._placed, made, tasks.ITEM_TYPES))

    @property
    def _items(self) -> DataFrame:
        return self._lines.where("reason is null")

    @cached_property
    def _codes(self) -> DataFrame:
        """Step 3: pair the items of each bucket."""
        emitted = partial(tasks.emit_entries, self._settings)
        entries = _mapped(self._items.select("row", "keys"), emitted, tasks.ENTRY_TYPES)
        sorted_entries = entries.repartition("bucket").sortWithinPartitions("bucket")
        return _fixed(_mapped(sorted_entries, partial(tasks.pair_buckets, self._bucket_limit), tasks.CODE_TYPES))

    @cached_property
    def _candidates(self) -> DataFrame:
        return _fixed(self._codes.where("later is not null").select("later", "earlier").distinct())

    def _with_items(self, pairs: DataFrame, *columns: str) -> DataFrame:
        """The items of pairs, with these columns: each later item, followed by the earlier ones of its pairs."""
        items = self._dated(*columns)
        earlier = pairs.join(items.select(f.col("row").alias("earlier"), *columns), "earlier")
        later = items.select(f.col("row").alias("later"), f.lit(tasks.ITSELF).alias("earlier"), *columns)
        later = later.join(pairs.select("later").distinct(), "later", "left_semi")
        work = later.unionByName(earlier)
        return work.repartition("later").sortWithinPartitions("later", "earlier")

    @cached_property
    def _near(self) -> DataFrame:
        """Step 4: compare pages."""
        work = self._with_items(self._candidates, *tasks.PAGE)
        return _fixed(_mapped(work, partial(tasks.near_pairs, self._settings), tasks.NEAR_TYPES))

    @cached_property
    def _passages(self) -> "np.ndarray[Any, Any] | None":
        """Step 5: learn the passages that recur; None if pages are compared."""
        if self._settings.decision.jaccard is not None or Scheme(self._settings.fingerprint).layout:
            return None
        others = tasks.not_counted(self._near.where("is_copy").toArrow())
        left_out = self._df.sparkSession.createDataFrame(table({"row": others}))
        counted_once = self._items.select("row", "passages").join(left_out, "row", "left_anti")
        hashes = _mapped(counted_once, tasks.list_passages, tasks.PASSAGE_TYPES)
        often = hashes.groupBy("hash").count().where(f.col("count") >= SIGHTINGS).select("hash").toArrow()
        return np.sort(often["hash"].to_numpy().astype(np.uint32))

    @cached_property
    def _articles(self) -> DataFrame:
        """Step 6: compare articles."""
        return _fixed(self._compared(self._near.select("later", "earlier")))

    def _compared(self, pairs: DataFrame) -> DataFrame:
        columns = ("id", *tasks.PAGE) if self._passages is None else ("id", *tasks.PAGE, *tasks.TEXT)
        task = partial(tasks.article_pairs, self._settings, self._passages)
        return _mapped(self._with_items(pairs, *columns), task, tasks.PAIR_TYPES)

    def _clustered(self, keep: str) -> DataFrame:
        """Step 7: find the clusters (`CLUSTER_TYPES`): the items in clusters of two or more."""
        if keep not in self._clusters:
            pairs = self._articles.select("b_row", "a_row", "found").toArrow()
            ends = pairs["b_row"].to_numpy(), pairs["a_row"].to_numpy()
            rows, places = np.unique(np.concatenate(ends), return_inverse=True)
            ours = self._df.sparkSession.createDataFrame(table({"row": rows}))
            merits = self._merits(self._keep(keep)).join(ours, "row", "left_semi").orderBy("row").toArrow()
            codes = codes_of(places[: len(ends[0])], places[len(ends[0]) :])
            chunks = [(codes, tasks.found_of(pairs["found"]))]

            def compare(codes: Codes) -> NDArray[np.void]:
                later, earlier = (rows[places] for places in rows_of(codes))
                unmet = self._df.sparkSession.createDataFrame(table({"later": later, "earlier": earlier}))
                return tasks.found_of(self._compared(unmet).orderBy("b_row", "a_row").toArrow()["found"])

            found = clusters_of(chunks, {name: merits[name].to_numpy() for name in MERITS}, compare)
            is_in = found.sizes[found.representatives] > 1
            columns = rows, rows[found.representatives], rows[found.firsts], found.is_new
            data = dict(zip(tasks.CLUSTER_TYPES, (one[is_in] for one in columns), strict=True))
            self._clusters[keep] = self._df.sparkSession.createDataFrame(table(data))
        return self._clusters[keep]

    def _numbers(self) -> DataFrame:
        """Row and number of each item. Items are numbered from 1; a line without an item has a row, and no number."""
        items, places = self._items.select("row", "place"), range(len(self.places.places))
        counts = dict(items.groupBy("place").count().collect())
        before = np.cumsum([0, *(counts.get(place, 0) for place in places)])[:-1]
        starts = self._df.sparkSession.createDataFrame(table({"place": np.array(places), "before": before}))
        within = f.row_number().over(Window.partitionBy("place").orderBy("row"))
        numbered = items.withColumn("within", within).join(f.broadcast(starts), "place")
        return numbered.select("row", (f.col("before") + f.col("within")).alias("number"))

    @cached_property
    def _watermarks(self) -> list[int]:
        highest = self._items.groupBy("place").agg(f.max("time")).collect()
        return tasks.highest_before(dict(highest), len(self.places.places))

    def _keep(self, keep: str) -> Keep:
        return parse_keep(keep, Scheme(self._settings.fingerprint))

    def _dated(self, *columns: str) -> DataFrame:
        """These columns of the items, the signature among them, with a time each."""
        names = "row", "place", *columns
        types = {name: tasks.ITEM_TYPES[name] for name in names}
        return _mapped(self._items.select(*names), partial(tasks.date_items, self._watermarks, self._settings), types)

    def _merits(self, keep: Keep) -> DataFrame:
        return _mapped(self._dated("signature"), partial(tasks.list_merits, self._settings, keep), tasks.MERIT_TYPES)


def _mapped(rows: DataFrame, task: Callable[[Iterable[Any]], Iterator[Any]], types: Mapping[str, str]) -> DataFrame:
    return rows.mapInArrow(task, ", ".join(f"{name} {kind}" for name, kind in types.items()))


def _warn(text: str) -> None:
    warnings.warn(text, StreamDedupWarning, stacklevel=3)


def _fixed(rows: DataFrame) -> DataFrame:
    """Do the work now and keep its result on disk, in the checkpoint directory if the session has one."""
    if rows.sparkSession.sparkContext.getCheckpointDir() is not None:
        return rows.checkpoint()
    return rows.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY)
