"""Clusters: each member is like its representative, the one item that is kept.

Items are taken by merit (`Keep`): one that stands behind none yet represents all items that are a pair with it and
stand behind none, if it is recognised in them (articles.py). So a cluster is no chain: a member is like its
representative, not like a member that is like another. The clusters depend on pairs and merits alone, not on the order
of the items: equal merits are ordered by the length of the body, then by the hash of the id.

Source: the leader algorithm, Hartigan, "Clustering Algorithms", 1975, chapter 3.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.errors import UsageError
from stream_dedup.fingerprint.headlines import cut_site_suffix
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.decode import site_of
from stream_dedup.tools.batch.articles import Rows
from stream_dedup.tools.batch.output_files import Columns
from stream_dedup.tools.batch.pair_search import Codes, codes_of, distinct, rows_of

CLUSTER_COLUMNS: Columns = {
    "id": str, "story": str, "representative": str, "keep": bool, "new": bool,
    "title": str, "source": str, "url": str, "published": str,
}  # fmt: skip
LARGEST = 5
"""Clusters that a summary names."""
# A cluster with this many headlines, which is more than half of its items, may be no article, but a site's form.
_MANY_HEADLINES = 8
LATEST = 253_402_300_800_000
"""The year 10,000, ms. Later times are in no calendar."""
MERITS = "rank", "time", "size", "name"
"""By these items are compared, in this order; smaller is better."""


class Keep(NamedTuple):
    """How the representative of a cluster is chosen, the one item that stays in an archive.

    earliest: by its date. first: by the order of the input, whatever the dates are. longest: by the distinct shingles
    of its body. source: by its site's place in `sources`, the preferred site first; other sites come last. Ties go to
    the earlier date, then to the longer body. An item without a date has the latest date before it.
    """

    choice: str
    sources: tuple[str, ...]

    def merits(self, signatures: NDArray[np.void], rows: Rows, scheme: Scheme) -> dict[str, NDArray[np.int64]]:
        """The `MERITS` of items with these signatures, (n,) each. O(n · sources)."""
        rank = np.zeros(len(signatures), np.int64)
        size = -signatures["body_size"].astype(np.int64)
        if self.choice == "first":
            rank[:] = rows
        elif self.choice == "longest":
            rank[:] = size
        elif self.choice == "source":
            rank[:] = len(self.sources)
            for place, name in enumerate(self.sources):
                rank[signatures["source"] == np.uint64(scheme.identity(name))] = place
        names = np.ascontiguousarray(signatures["row_id"]).view(np.int64)
        return dict(zip(MERITS, (rank, signatures["time"].astype(np.int64), size, names), strict=True))

    def absent(self, ranks: set[int]) -> tuple[str, ...]:
        """The listed sources that no item has, perhaps misspelt. `ranks`: all that occur."""
        return tuple(name for place, name in enumerate(self.sources) if place not in ranks)


def parse_keep(text: str, scheme: Scheme) -> Keep:
    """Parse "earliest", "first", "longest", or "source:NAME,NAME,..."; a name is a site, as in `Item.source`.

    Raises UsageError for anything else, and where the scheme's signatures lack what the choice needs.
    """
    name, colon, names = text.partition(":")
    sources = tuple(dict.fromkeys(site for one in names.split(",") if (site := site_of(one))))
    is_known = name in ("earliest", "first", "longest", "source")
    if not is_known or not bool(colon) == bool(sources) == (name == "source"):
        raise UsageError(f"keep = {text!r} is none of 'earliest', 'first', 'longest' and 'source:NAME,NAME,...'")
    if name == "longest" and scheme.is_given:
        raise UsageError("keep = 'longest' compares texts, which family = 'given' does not read; keep 'earliest'")
    return Keep(name, sources)


class Clusters(NamedTuple):
    """Of each item: the one that represents it, itself if it stands alone; whether it has something new beside it."""

    representatives: Rows
    is_new: NDArray[np.bool_]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of items that each item represents, (n,); 0 if it stands behind another."""
        return np.bincount(self.representatives, minlength=len(self.representatives))

    @property
    def firsts(self) -> Rows:
        """The first item of each item's cluster in the input, which names it."""
        first = np.arange(len(self.representatives))
        np.minimum.at(first, self.representatives, np.arange(len(first)))
        return first[self.representatives]

    def keeps(self, rows: Rows, drop_new: bool) -> NDArray[np.bool_]:
        """Which of the rows stay: representatives, and without `drop_new` what has something new beside them."""
        stays: NDArray[np.bool_] = (self.representatives[rows] == rows) | (self.is_new[rows] & (not drop_new))
        return stays


Chunk = tuple[Codes, NDArray[np.void]]
"""Codes of pairs, and FOUND of each."""


def clusters_of(chunks: Sequence[Chunk], merits: dict[str, NDArray[np.int64]]) -> Clusters:
    """The clusters of n items with these merits. O(n log n + pairs log pairs), and 24 bytes a pair."""
    size = len(merits["rank"])
    by_merit = np.lexsort([merits[name] for name in reversed(MERITS)])
    place = np.empty(size, np.int64)
    place[by_merit] = np.arange(size)
    edges = [codes_of(better, worse) for better, worse, _ in _edges(chunks, place)]
    leaders = _leaders(distinct(np.concatenate([np.empty(0, np.uint64), *edges])), size)
    is_new = np.zeros(size, np.bool_)
    for better, worse, adds in _edges(chunks, place):
        is_new[worse[adds & (leaders[worse] == better)]] = True
    return Clusters(by_merit[leaders][place], is_new[place])


def _edges(chunks: Iterable[Chunk], place: Rows) -> Iterator[tuple[Rows, Rows, NDArray[np.bool_]]]:
    """The places of pairs whose worse item may stand behind the better one, and whether it has something new."""
    for codes, found in chunks:
        later, earlier = (place[rows] for rows in rows_of(codes))
        is_later = later > earlier
        joins = np.where(is_later, found["later_joins"], found["earlier_joins"])
        adds = np.where(is_later, found["later_is_new"], found["earlier_is_new"])
        yield np.minimum(later, earlier)[joins], np.maximum(later, earlier)[joins], adds[joins]


def _leaders(edges: Codes, size: int) -> Rows:
    """The leader of each place, given ascending codes (better place, worse place).

    >>> _leaders(np.array([0 << 32 | 1, 1 << 32 | 2], np.uint64), 3).tolist()
    [0, 0, 2]
    """
    leaders = np.arange(size)
    better, worse = rows_of(edges)
    firsts = np.flatnonzero(np.diff(better, prepend=-1))
    for leader, members in zip(better[firsts].tolist(), np.split(worse, firsts[1:]), strict=bool(len(firsts))):
        if leaders[leader] == leader:
            leaders[members[leaders[members] == members]] = leader
    return leaders


# -- for people -------------------------------------------------------------------------------------------------------


class Large(NamedTuple):
    """A large cluster: its items, their distinct headlines, and the headline of its representative."""

    items: int
    headlines: int
    title: str

    @property
    def is_doubtful(self) -> bool:
        """Whether it has so many headlines that it may be no article."""
        return self.headlines >= _MANY_HEADLINES and 2 * self.headlines > self.items


def large(titles: Sequence[str], title: str) -> Large:
    """A cluster with the headlines of its items, and that of its representative."""
    return Large(len(titles), len({" ".join(cut_site_suffix(one).lower().split()) for one in titles}), title)


def published(times: NDArray[np.int64]) -> list[str | None]:
    """Times as people read them, in UTC; None if they are unknown.

    >>> published(np.array([0, -1]))
    ['1970-01-01T00:00:00Z', None]
    """
    is_known = (times >= 0) & (times < LATEST)
    dates = np.datetime_as_string(np.where(is_known, times, 0).astype("datetime64[ms]"), unit="s").tolist()
    return [f"{date}Z" if known else None for date, known in zip(dates, is_known.tolist(), strict=True)]


def row_columns(ids: list[str], stories: list[str], kept: list[str], *rest: list[Any]) -> dict[str, list[Any]]:
    """The columns of the output, in the order of `CLUSTER_COLUMNS`."""
    return dict(zip(CLUSTER_COLUMNS, (ids, stories, kept, *rest), strict=True))
