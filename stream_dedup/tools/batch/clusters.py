"""Clusters: items that are one article on the whole, each of them like its representative, the one that is kept.

1. **Average linkage.** Clusters are joined as long as the mean of the scores (articles.py) between their items speaks
   for one article. A chain of pairs does not suffice, and one doubtful pair does no harm. A pair that is not near
   counts as `_UNKNOWN`. Groups that are sure of one item come first, so a family of a thousand copies is one step.
2. **Leaders.** The best item (`Keep`) of such a cluster represents those in which it is recognised; of the rest the
   best one represents others, and so on.
3. **What stays.** Of the items that a leader represents, one has something new if it has it beside the leader and each
   better one that stays for the same reason. So of thirty copies of a fuller version one stays.

The clusters depend on pairs and merits alone, not on the order of the items: equal merits are ordered by the length of
the body, then by the hash of the id.

Sources: average linkage, Sokal, Michener, "A statistical method for evaluating systematic relationships", University of
Kansas Science Bulletin 1958; the leader algorithm, Hartigan, "Clustering Algorithms", 1975, chapter 3.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.rule import SAME_ARTICLE
from stream_dedup.errors import UsageError
from stream_dedup.fingerprint.headlines import cut_site_suffix
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.decode import site_of
from stream_dedup.tools.batch.articles import SURE, Rows
from stream_dedup.tools.batch.output_files import Columns
from stream_dedup.tools.batch.pair_search import Codes, codes_of, distinct, rows_of

CLUSTER_COLUMNS: Columns = {
    "id": str, "story": str, "representative": str, "keep": bool, "new": bool,
    "title": str, "source": str, "url": str, "published": str,
}  # fmt: skip
# The score of a pair that is not near, or was no candidate. At -1 recall falls by .004 and precision rises by .001; at
# 0 precision falls by .004.
_UNKNOWN = -0.5
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
    """Of each item: the one that represents it, itself if it stands alone; whether it has something new beside that one
    and the better ones of its cluster that have something new, too."""

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
"""Codes of near pairs, and FOUND of each."""


def of_one_article(chunk: Chunk) -> Chunk:
    """Those near pairs that are one article."""
    codes, found = chunk
    is_pair = found["score"] >= SAME_ARTICLE
    return codes[is_pair], found[is_pair]


def clusters_of(
    chunks: Sequence[Chunk], merits: dict[str, NDArray[np.int64]], compare: Callable[[Codes], NDArray[np.void]]
) -> Clusters:
    """The clusters of n items with these merits.

    `compare(codes)`: FOUND of pairs that were not near, ascending codes. O(n log n + pairs log pairs); 40 bytes a pair.
    """
    size = len(merits["rank"])
    by_merit = np.lexsort([merits[name] for name in reversed(MERITS)])
    place = np.empty(size, np.int64)
    place[by_merit] = np.arange(size)
    best = _linked(*_scored(chunks, place), size)
    unmet = best != np.arange(size)
    for better, worse, _ in _edges(chunks, place):
        unmet[worse[best[worse] == better]] = False
    a, b = by_merit[best[unmet]], by_merit[unmet]
    codes = distinct(codes_of(np.maximum(a, b), np.minimum(a, b)))
    chunks = [*chunks, (codes, compare(codes))]

    def led(edge: str, groups: Rows) -> Rows:
        """The leader of each place within its group, by the edges of this name."""
        codes = [np.empty(0, np.uint64)]
        for better, worse, edges in _edges(chunks, place):
            is_led = edges[edge] & (groups[better] == groups[worse])
            codes.append(codes_of(better[is_led], worse[is_led]))
        return _leaders(distinct(np.concatenate(codes)), size)

    leaders = led("joins", best)
    stays = led("adds_nothing", leaders) == np.arange(size)
    return Clusters(by_merit[leaders][place], (stays & (leaders != np.arange(size)))[place])


_EDGE = np.dtype([("joins", "?"), ("adds_nothing", "?")])


def _edges(chunks: Iterable[Chunk], place: Rows) -> Iterator[tuple[Rows, Rows, NDArray[np.void]]]:
    """The places of pairs, the better one first; whether the worse item may stand behind it, and then adds nothing."""
    for codes, found in chunks:
        later, earlier = (place[rows] for rows in rows_of(codes))
        edges = np.empty(len(codes), _EDGE)
        joins, adds = (
            np.where(later > earlier, found[f"later_{name}"], found[f"earlier_{name}"]) for name in ("joins", "is_new")
        )
        edges["joins"], edges["adds_nothing"] = joins, joins & ~adds
        yield np.minimum(later, earlier), np.maximum(later, earlier), edges


def _scored(chunks: Sequence[Chunk], place: Rows) -> tuple[Codes, NDArray[np.float64]]:
    """The codes (better place, worse place) of all pairs, ascending, and their scores."""
    codes = [np.empty(0, np.uint64), *(codes_of(better, worse) for better, worse, _ in _edges(chunks, place))]
    scores = [np.empty(0, np.float32), *(found["score"] for _, found in chunks)]
    order = np.argsort(joined := np.concatenate(codes))
    return joined[order], np.concatenate(scores)[order].astype(np.float64)


def _linked(edges: Codes, scores: NDArray[np.float64], size: int) -> Rows:
    """The best place of the cluster of each place, by average linkage. edges: as of `_scored`.

    >>> chain = np.array([0 << 32 | 1, 1 << 32 | 2, 1 << 32 | 3], np.uint64)
    >>> _linked(chain, np.array([2.0, 2.0, 0.5]), 4).tolist()
    [0, 0, 0, 3]
    """
    groups = _leaders(edges[scores >= SURE], size)
    better, worse = (groups[places] for places in rows_of(edges))
    is_out = better != worse
    between = codes_of(np.minimum(better, worse)[is_out], np.maximum(better, worse)[is_out])
    codes, which = np.unique(between, return_inverse=True)
    known, counts = np.bincount(which, scores[is_out], len(codes)), np.bincount(which, minlength=len(codes))
    sizes, ends = np.bincount(groups, minlength=size), rows_of(codes)
    means = _mean(known, counts, sizes[ends[0]] * sizes[ends[1]])
    linkage = _Linkage(sizes.tolist(), *(column.tolist() for column in (*ends, known, counts, means)))
    linkage.join()
    roots = np.arange(size)
    for place in linkage.joined:
        roots[place] = linkage.root(place)
    return roots[groups]


def _mean(known: Any, count: Any, pairs: Any) -> Any:
    """Return the mean score of so many pairs, numbers or arrays, of which `count` have `known` as their sum."""
    return (known + (pairs - count) * _UNKNOWN) / pairs


class _Linkage:
    """Groups by their best place, and the links between them: the sum and the number of the scores that are known, and
    a bound of their mean.

    The heap has each link under its bound. Joined groups have no higher mean with a third one than the higher of the
    two, so a bound stays one; the mean is computed when the bound comes.
    """

    def __init__(
        self, sizes: list[int], better: list[int], worse: list[int], known: list[float], counts: list[int],
        means: list[float],
    ) -> None:  # fmt: skip
        self._sizes, self._known, self._counts, self._bounds = sizes, known, counts, means
        self._links: dict[int, dict[int, int]] = {place: {} for place in (*better, *worse)}
        self._heap: list[tuple[float, int, int]] = []
        self.joined: dict[int, int] = {}
        for link, (a, b, mean) in enumerate(zip(better, worse, means, strict=True)):
            self._links[a][b] = self._links[b][a] = link
            if mean >= SAME_ARTICLE:
                self._heap.append((-mean, a, b))
        heapq.heapify(self._heap)

    def root(self, place: int) -> int:
        """The group that this one has become a part of."""
        while place in self.joined:
            place = self.joined[place]
        return place

    def join(self) -> None:
        """Join groups, the most alike first. O(links log links), unless a large group joins again and again."""
        while self._heap:
            bound, a, b = heapq.heappop(self._heap)
            if a in self.joined or b in self.joined:
                a, b = sorted((self.root(a), self.root(b)))
            if a == b or self._bounds[link := self._links[a][b]] != -bound:
                continue  # joined, or another entry has the bound
            mean = _mean(self._known[link], self._counts[link], self._sizes[a] * self._sizes[b])
            if mean >= -bound:
                self._join(a, b)
                continue
            self._bounds[link] = mean
            if mean >= SAME_ARTICLE:
                heapq.heappush(self._heap, (-mean, a, b))

    def _join(self, a: int, b: int) -> None:
        ours, theirs = self._links[a], self._links.pop(b)
        del ours[b], theirs[a]
        self._sizes[a] += self._sizes[b]
        self.joined[b] = a
        for other, link in theirs.items():
            del self._links[other][b]
            if (into := ours.get(other)) is None:
                ours[other] = self._links[other][a] = link
                self._bounds[link] = max(_UNKNOWN, self._bounds[link])
                continue
            self._known[into] += self._known[link]
            self._counts[into] += self._counts[link]
            self._bounds[into] = max(self._bounds[into], self._bounds[link])


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
