"""A report of a run in one HTML file: counts, and what was held back or is an update, beside its original.

`filter` and `trial` write it. `Report.add` takes the items and verdicts of each batch, in order; `Report.html` returns
a page that needs no network: doubtful pairs come first, and a search narrows them down. Memory is bounded however long
the run is: texts are cut, originals are retained up to `_MOST_BYTES` (retained.py), and the page shows the most
doubtful pairs of each reason, one for each original. Among equally doubtful pairs, such as exact copies, it shows a
random sample.
"""

import base64
import hashlib
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment

from stream_dedup.dedup.source_rules import IGNORE, REASONS
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings
from stream_dedup.tools.page.rendering import environment
from stream_dedup.tools.page.retained import TITLE_CHARS, ItemPair, Retained
from stream_dedup.tools.wording import NOT_ASKED, STAGES, margin_of

TEXT_CHARS = 4000
"""Characters shown of a text: most articles are whole, and a page has a few megabytes at most."""
SHOWN = 30
"""Pairs shown of each reason."""
# Of the retained originals: 20,000 long articles, or some hours of a large feed. They take 110 MB (measured).
_MOST_BYTES = 2**27
_MOST_ITEMS = 200_000
_MOST_SOURCES = 4096  # that are counted: a large feed has some thousand
_OTHERS = "(other sources)"
_SOURCES, _BAD, _BAD_CHARS = 10, 10, 300  # rows of their tables, and what is quoted of a bad item
# The distance from the threshold of a decision that had no number. Other distances are smaller.
_SURE = 2.0
_UPDATE = "the same article, with something new"


@dataclass(slots=True)
class _Counts:
    """Of one source."""

    items: int = 0
    held: int = 0
    updates: int = 0


# Whether it was let through, and why.
_Reason = tuple[bool, str]
# Distance from the threshold (small: doubtful), a random number, and the pair.
_Entry = tuple[float, float, ItemPair]


class Report:
    """Collects what the page about a run shows. `path`: where the page goes; `what`: what was read."""

    def __init__(self, settings: Settings, path: Path, what: str, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._settings, self._what, self._clock = settings, what, clock
        self._place: Callable[[int, int], str] = lambda number, line: f"{number}:{line}"
        self._retained = Retained(_MOST_ITEMS, _MOST_BYTES, TEXT_CHARS)
        self._random = random.Random(1)  # the same run makes the same report
        self._kinds: Counter[Kind] = Counter()
        self._sources: defaultdict[str, _Counts] = defaultdict(_Counts)
        self._reasons: Counter[_Reason] = Counter()
        self._shown: defaultdict[_Reason, dict[str, _Entry]] = defaultdict(dict)  # by the original's id
        self._without_original = self._ignored = 0
        self._bad: dict[str, str] = {}

    def add(
        self, items: Sequence[Item | Tombstone | BadItem], verdicts: Sequence[Verdict], place: Callable[[int, int], str]
    ) -> None:
        """Add a batch. `place`: names the partition and offset of an item. O(1) an item."""
        self._place, now = place, self._clock()
        for item, verdict in zip(items, verdicts, strict=True):
            self._kinds[verdict.kind] += 1
            pair = self._retained.add(item, verdict, now)
            if isinstance(item, BadItem):
                if len(self._bad) < _BAD:
                    self._bad.setdefault(item.reason, verdict.reason[:_BAD_CHARS])
                continue
            if isinstance(item, Item):
                name = item.source[:TITLE_CHARS]
                is_counted = name in self._sources or len(self._sources) < _MOST_SOURCES
                source = self._sources[name if is_counted else _OTHERS]
                source.items += 1
                source.held += not verdict.forward
                source.updates += verdict.forward and pair is not None
                self._ignored += verdict.reason == REASONS[IGNORE]
            if pair is not None:
                self._consider(pair, verdict)

    def _consider(self, pair: ItemPair, verdict: Verdict) -> None:
        """Keep the pair if it is among the most doubtful ones of its reason."""
        is_asked = verdict.stage not in NOT_ASKED
        why = _UPDATE if verdict.forward and is_asked else STAGES[verdict.stage]
        reason = verdict.forward, why if is_asked else verdict.reason or why
        self._reasons[reason] += 1
        if pair.original is None:
            self._without_original += 1
            return
        margin = margin_of(verdict.as_json(), self._settings)
        entry = _SURE if margin is None else abs(margin), self._random.random(), pair
        kept, original = self._shown[reason], pair.original.verdict.id
        if original not in kept or entry[:2] < kept[original][:2]:
            kept[original] = entry
            if len(kept) > SHOWN:
                del kept[max(kept, key=lambda name: kept[name][:2])]

    def html(self, done_before: int = 0) -> str:
        """Render the page. `done_before`: items of the run that were judged before it was resumed, so not seen here."""
        pairs: dict[bool, list[tuple[_Entry, str]]] = {False: [], True: []}
        for (forward, why), kept in self._shown.items():
            pairs[forward] += [(entry, why) for entry in kept.values()]
        lists = [
            (name, title, [(why, entry[2]) for entry, why in sorted(pairs[forward], key=lambda one: one[0][:2])])
            for forward, name, title in ((False, "held", "Held back"), (True, "updates", "Updates let through"))
        ]
        sources = sorted(self._sources.items(), key=lambda one: (-one[1].held, -one[1].items, one[0]))
        counts = {
            name: sum(count for (is_update, _), count in self._reasons.items() if is_update is forward)
            for forward, name in ((False, "held"), (True, "updates"))
        }
        ignored = [((True, REASONS[IGNORE]), self._ignored)] if self._ignored else []  # these have no pairs
        return stand_alone(
            environment(self._settings, self._place), "report.html", what=self._what, made=self._clock(),
            shadow=self._settings.policy.shadow, done_before=done_before, total=self._kinds.total(), kinds=self._kinds,
            counts=counts, reasons=self._reasons.most_common() + ignored, sources=sources[:_SOURCES],
            more_sources=max(len(sources) - _SOURCES, 0), bad=self._bad, lists=lists, shown=SHOWN,
            text_chars=TEXT_CHARS, left_out=sum(counts.values()) - sum(len(one[2]) for one in lists),
            without_original=self._without_original,
        )  # fmt: skip


def stand_alone(environment: Environment, name: str, **values: Any) -> str:
    """Render a page that stands alone in one file. Its policy runs only our own script, and loads nothing from
    elsewhere.

    The digests are those of what `templates/sheet.html` includes.
    """
    digests = {}
    for kind, file in (("style", "page.css"), ("script", "report.js")):
        content = environment.get_template(file).render().encode()
        digests[kind] = base64.b64encode(hashlib.sha256(content).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digests['script']}'; style-src 'sha256-{digests['style']}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return environment.get_template(name).render(policy=policy, **values)
