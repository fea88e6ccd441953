"""A report of `pairs` in one HTML file: clusters, each with the item that is kept beside those that it stands for.

Clusters come first in which an item has something new, then the largest ones, then some drawn at random.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.shown import MOST_MEMBERS, SHOWN, ShownCluster
from stream_dedup.tools.page.rendering import environment
from stream_dedup.tools.page.retained import JudgedItem, judged_item
from stream_dedup.tools.report import TEXT_CHARS, stand_alone


class ClusterReport:
    """Makes the page. `path`: where it goes; `what`: what was read; `place`: names an input and a line of it."""

    def __init__(
        self, settings: Settings, path: Path, what: str, place: Callable[[int, int], str], *,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.path = path
        self._settings, self._what, self._place, self._clock = settings, what, place, clock

    def html(self, clusters: Sequence[ShownCluster], sizes: Sequence[int], new: int) -> str:
        """Render the page. sizes: of all clusters. new: items with something new beside their representatives."""
        blocks = [
            (one.why, one.items, self._shown(one.kept, Kind.UNIQUE), [
                self._shown(item, Kind.UPDATE if is_new else Kind.DUPLICATE) for item, is_new in one.others
            ])
            for one in clusters
        ]  # fmt: skip
        return stand_alone(
            environment(self._settings, self._place), "clusters.html", what=self._what, made=self._clock(),
            blocks=blocks, clusters=len(sizes), items=sum(sizes), new=new, shown=SHOWN, most=MOST_MEMBERS,
            text_chars=TEXT_CHARS,
        )  # fmt: skip

    def _shown(self, item: Item, kind: Kind) -> JudgedItem:
        verdict = Verdict(item.id, kind, Stage.NONE, kind is not Kind.DUPLICATE)
        return judged_item(item, verdict, self._clock(), TEXT_CHARS)
