"""Which clusters a report of `pairs` shows, and their items, read from the inputs a second time.

A corpus keeps fingerprints and headlines, not texts. So the inputs of a report must be files.
"""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from stream_dedup.errors import UsageError
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.tools.batch.articles import Rows
from stream_dedup.tools.batch.clusters import Clusters
from stream_dedup.tools.batch.corpus import Corpus
from stream_dedup.tools.inputs.lines import LineReader, item_of
from stream_dedup.tools.inputs.packing import STDIN

SHOWN = 30
"""Clusters of each reason."""
MOST_MEMBERS = 10
"""Members of a cluster that are shown."""
WITH_NEW, LARGEST, DRAWN = "something new", "among the largest", "drawn at random"
"""Why a cluster is shown."""


class ShownCluster(NamedTuple):
    """A cluster: why it is shown, the number of its items, the one that represents it, and some of the others, those
    with something new beside it first."""

    why: str
    items: int
    kept: Item
    others: list[tuple[Item, bool]]


class PairsReport(Protocol):
    """Makes a page of clusters; tools/cluster_report.py has one."""

    path: Path

    def html(self, clusters: Sequence[ShownCluster], sizes: Sequence[int], new: int) -> str:
        """The page. sizes: of all clusters. new: items with something new."""


def check_files(names: Iterable[str]) -> None:
    """Raise UsageError unless the inputs can be read twice."""
    for name in names:
        if name == STDIN or not Path(name).is_file():
            raise UsageError(f"--report reads the inputs twice, and {name} is no file; write it to one first")


def shown_clusters(corpus: Corpus, clusters: Clusters, lines: LineReader, decode: Decoder) -> list[ShownCluster]:
    """The clusters that a report shows. lines: the inputs of the corpus, from their beginning."""
    chosen = [(why, kept, _members(clusters, kept)) for why, kept in _chosen(clusters)]
    rows = np.unique(np.array([row for _, kept, others in chosen for row in (kept, *others)], np.int64))
    places = corpus.signatures(rows)[["partition", "offset"]].tolist()
    wanted, items = dict(zip(places, rows.tolist(), strict=True)), dict[int, Item]()
    for line in lines:
        if (row := wanted.get((line.input, line.number))) is not None and isinstance(
            item := item_of(decode, line), Item
        ):
            items[row] = item
    sizes, is_new = clusters.sizes, clusters.is_new.tolist()
    return [
        ShownCluster(why, int(sizes[kept]), items[kept], [(items[row], is_new[row]) for row in others if row in items])
        for why, kept, others in chosen
        if kept in items
    ]


def _chosen(clusters: Clusters) -> list[tuple[str, int]]:
    """Why, and the representatives: those of most items with something new, of the largest clusters, and of others."""
    sizes = clusters.sizes
    new = np.bincount(clusters.representatives, clusters.is_new, len(sizes))
    several = np.flatnonzero(sizes > 1)
    drawn = random.Random(1).sample(several.tolist(), min(3 * SHOWN, len(several)))  # the same run shows the same
    ordered = {
        WITH_NEW: several[np.argsort(-new[several], kind="stable")][: np.count_nonzero(new)].tolist(),
        LARGEST: several[np.argsort(-sizes[several], kind="stable")].tolist(),
        DRAWN: drawn,
    }
    taken: dict[int, str] = {}
    for why, rows in ordered.items():
        taken |= dict.fromkeys([row for row in rows if row not in taken][:SHOWN], why)
    return [(why, row) for row, why in taken.items()]


def _members(clusters: Clusters, kept: int) -> list[int]:
    rows: Rows = np.flatnonzero((clusters.representatives == kept) & (np.arange(len(clusters.is_new)) != kept))
    return rows[np.argsort(~clusters.is_new[rows], kind="stable")][:MOST_MEMBERS].tolist()  # type: ignore[no-any-return]
