"""The status page: numbers and items in, HTML out; what somebody on call sees first.

In: how the worker is (`State`), what it did (`Board`), what it saw (`Recent`, `Came`), the metrics of its index. Out:
`Answer`s for the paths of the page. News text is hostile: every value goes through Jinja2's automatic escaping, the
templates mark nothing as safe, and no script or style runs that does not come from a file of ours.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from typing import Any
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader, StrictUndefined
from prometheus_client import CollectorRegistry

from stream_dedup.dedup.figures import Figures
from stream_dedup.dedup.verdict import Evidence, Verdict
from stream_dedup.dedup.wording import in_words
from stream_dedup.news.presets import FIELDS
from stream_dedup.news.summary import rows_of, share
from stream_dedup.observe.board import SECONDS, Board, Snapshot
from stream_dedup.observe.charts import HEIGHT, WIDTH, Chart, chart
from stream_dedup.observe.differences import differences, figures
from stream_dedup.observe.health import HealthState, Status, bound_of
from stream_dedup.observe.incoming import Came
from stream_dedup.observe.recent import HELD, Recent, Seen
from stream_dedup.settings import Settings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
"""Content-Security-Policy: nothing but our own files, no inline script or style, and nobody's frame."""
_FILES = {
    "/page.css": ("text/css; charset=utf-8", "page.css"),
    "/page.js": ("text/javascript; charset=utf-8", "page.js"),
    "/icon.svg": ("image/svg+xml", "icon.svg"),
}
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_LONGEST_ID = 4096  # as the worker takes them
# The pieces that "now" is made of: a minute, so that a trickle does not read as nothing.
_NOW = 60 // SECONDS

# Metrics of the index, by name and label, as the page calls them; one that there is not makes no row.
_INDEX: tuple[tuple[str, str, str, Mapping[str, str]], ...] = (
    ("remembered: originals, and variants (cut or re-headlined copies)", "count", "stream_dedup_index_rows", {}),
    ("of them in the recent tree", "count", "stream_dedup_index_recent_rows", {}),
    ("sorted runs", "count", "stream_dedup_index_runs", {}),
    ("oldest original, before the newest item", "duration", "stream_dedup_window_age_seconds", {}),
    ("forgotten early: more than window.max_originals", "count", "stream_dedup_evicted_originals_total", {}),
    ("times that were missing", "count", "stream_dedup_odd_times_total", {"reason": "missing"}),
    ("times ahead of the clock", "count", "stream_dedup_odd_times_total", {"reason": "future"}),
    ("times unlike those around them", "count", "stream_dedup_odd_times_total", {"reason": "alone"}),
    ("times late by more than the window", "count", "stream_dedup_odd_times_total", {"reason": "late"}),
    ("times in 1970: seconds for milliseconds?", "count", "stream_dedup_odd_times_total", {"reason": "seconds"}),
    ("merges", "count", "stream_dedup_index_merges_total", {}),
    ("memory of the tables", "bytes", "stream_dedup_memory_bytes", {"part": "keys"}),
    ("memory of the sketches", "bytes", "stream_dedup_memory_bytes", {"part": "signatures"}),
    ("memory of whole bodies", "bytes", "stream_dedup_memory_bytes", {"part": "bodies"}),
    ("memory of the ids", "bytes", "stream_dedup_memory_bytes", {"part": "ids"}),
    ("memory of the process", "bytes", "process_resident_memory_bytes", {}),
)

# A standby asks for the changelog's end once a second, and reads meanwhile.
_LEVEL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Response:
    """What a path shows."""

    kind: str
    body: bytes
    headers: Mapping[str, str]


class Page:
    """Answers for the page's paths. Safe on any thread."""

    def __init__(
        self,
        settings: Settings,
        version: str,
        state: Callable[[], HealthState],
        board: Board,
        recent: Recent,
        registry: CollectorRegistry,
        came: Callable[[], Came | None],
    ) -> None:
        self._settings, self._version, self._came = settings, version, came
        self._state, self._board, self._recent, self._registry = state, board, recent, registry
        static = resources.files("stream_dedup.observe") / "static"
        self._files = {path: (kind, (static / name).read_bytes()) for path, (kind, name) in _FILES.items()}
        environment = Environment(
            loader=PackageLoader("stream_dedup.observe"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {
            "clock": _clock, "moment": _moment, "event": _event, "share": _share, "words": in_words,
            "duration": duration,
        }  # fmt: skip
        environment.globals |= {
            "rows": self._evidence,
            "sides": _sides,
            "figures": _figures,
            "WIDTH": WIDTH,
            "HEIGHT": HEIGHT,
        }
        self._template = environment.get_template("status.html")

    def answer(self, path: str, query: str) -> Response | None:
        """None: there is no such path."""
        if path in self._files:
            kind, body = self._files[path]
            return Response(kind, body, _HEADERS)
        if path != "/":
            return None
        return Response("text/html; charset=utf-8", self._html(_asked(query)).encode("utf-8", "replace"), _HEADERS)

    def _html(self, asked: str | None) -> str:
        now, state = self._board.snapshot(), self._state()
        found = self._recent.find(asked) if asked else None
        original = None
        if found is not None and found.verdict.original is not None:
            original = found.passed or self._recent.find(found.verdict.original.id)
        return self._template.render(
            settings=self._settings,
            version=self._version,
            state=state,
            advice=self._advice(state, now),
            role=_role(state, now),
            now=now,
            errors=[(one, self._without_secrets(one.text)) for one in now.errors],
            charts=_charts(now),
            incoming=_incoming(self._came(), bool(self._recent.limit)),
            index=self._index(),
            held=self._recent.held(),
            updates=self._recent.updates(),
            beside_limit=HELD,
            bad=self._recent.bad(),
            memory={
                "count": len(self._recent),
                "limit": self._recent.limit,
                "bytes": _bytes(self._recent.nbytes),
                "since": self._recent.since(),
            },
            asked=asked,
            found=found,
            original=original if original is not found else None,
        )

    def _advice(self, state: HealthState, now: Snapshot) -> str:
        if state.reason:
            return (
                f"{state.reason[0].upper()}{state.reason[1:]}. Nothing goes through and nothing is lost; it goes on by "
                "itself when the brokers are back."
            )
        if state.status is Status.STALLED:
            bound = duration(bound_of(self._settings))
            return (
                f"No sign of life, or nothing but failures, for more than {bound}. Look at the errors below, the log, "
                "then the brokers. A restart loses nothing."
            )
        if state.status is Status.STARTING:
            done = [f"{read / max(total, 1):.0%} of task {name}" for name, (read, total) in now.restoring.items()]
            return "It reads its memory back from the changelog" + (f": {', '.join(done)}." if done else ".")
        if state.status is Status.STANDBY:
            return f"Another member of the group works. This one takes over when that one ends. {_behind(now)}".rstrip()
        if now.failing:
            return (
                f"Tasks that fail and are tried again: {', '.join(now.failing)}; what their partitions bring waits. "
                "See the errors below."
            )
        if any(now.lag.values()):
            return f"It works, {sum(now.lag.values()):,} records behind the end of its input."
        return "It works, and is at the end of its input."

    def _index(self) -> list[tuple[str, str]]:
        values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self._registry.collect()
            for sample in family.samples
        }
        rows = []
        for title, unit, name, labels in _INDEX:
            value = values.get((name, frozenset(labels.items())))
            if value is not None:
                rows.append(
                    (title, {"count": f"{value:,.0f}", "bytes": _bytes(value), "duration": duration(value)}[unit])
                )
        window = duration(self._settings.window.length.total_seconds())
        return [*rows, ("window", window)]

    def _evidence(self, verdict: Verdict) -> list[tuple[str, str, str]]:
        """(what was compared, how alike, from which it counts)."""
        e, d = verdict.evidence or Evidence(), self._settings.decision
        rows = [
            ("headline: words in common", e.headline, d.headline),
            ("opening: share found in the other's", e.lead, d.lead),
            ("text: phrases in common", e.body, d.body),
            ("text: share of the shorter one found in the other", e.containment, d.kinship),
            ("prose: share that the original lacks", e.new_share, None),
            ("novelty: how likely it has something new", e.novelty, d.novelty),
        ]
        return [(name, _share(value), _share(needed)) for name, value, needed in rows if value is not None]

    def _without_secrets(self, text: str) -> str:
        password = self._settings.kafka.sasl_password
        secret = password.get_secret_value() if password else ""
        return text.replace(secret, "**********") if secret else text


def _behind(now: Snapshot) -> str:
    """How far a standby is behind, in words."""
    if not now.behind:
        return ""
    blocks, seconds = max(now.behind.values(), key=lambda one: one[1])
    if seconds < _LEVEL_SECONDS:
        return "It has read the changelog to its end."
    return f"It is {blocks:,} blocks behind the changelog, and last was at its end {duration(seconds)} ago."


def _role(state: HealthState, now: Snapshot) -> str:
    if now.tasks:
        return "active"
    if now.restoring:
        return "restoring"
    return "standby" if state.status is Status.STANDBY else "none yet"


def _charts(now: Snapshot) -> list[Chart]:
    pieces, last = now.pieces, now.pieces[-_NOW - 1 : -1]  # the one that is running is not whole
    items, held = sum(one.items for one in last), sum(one.held for one in last)
    rate = items / (len(last) * SECONDS)
    slowest = max((one.slowest for one in last if one.slowest is not None), default=None)
    lag = sum(now.lag.values()) if now.lag else None
    through = [(one.items - one.held) / SECONDS for one in pieces]
    return [
        chart(
            "rate", "Items a second", "/s",
            {"let through": through, "held back": [one.held / SECONDS for one in pieces]}, f"{rate:,.1f}", 1,
        ),
        chart(
            "share", "Share held back", "%",
            {"share": [100 * one.held / one.items if one.items else None for one in pieces]},
            f"{100 * held / items:.0f} %" if items else "no items",
        ),
        chart(
            "transaction", "Slowest transaction", "ms",
            {"time": [None if one.slowest is None else 1000 * one.slowest for one in pieces]},
            "none" if slowest is None else f"{1000 * slowest:,.0f} ms",
        ),
        chart(
            "lag", "Lag", "records", {"lag": _filled([one.lag for one in pieces])},
            "not known" if lag is None else f"{lag:,}",
        ),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Incoming:
    """What comes in, as the page shows it. `fields`: (field, how often filled, in percent for a bar, first value)."""

    since: float
    fields: list[tuple[str, str, int, str]]
    rows: list[tuple[str, str]]
    reasons: list[str]
    warnings: list[str]


def _incoming(came: Came | None, shows_items: bool) -> _Incoming | None:
    if came is None:
        return None
    one = came.summary
    fields = [
        (
            name,
            share(one, name),
            round(100 * one.filled[name] / one.looked),
            one.samples.get(name, "-") if shows_items else "",
        )
        for name in FIELDS
        if one.looked
    ]
    rows = [row for row in rows_of(one) if row[0] != "filled"]
    return _Incoming(came.since, fields, rows, one.reasons, [warned.text for warned in one.warnings])


def _filled(values: Iterable[float | None]) -> list[float | None]:
    """Where nothing was told, what was told last."""
    filled: list[float | None] = []
    for value in values:
        filled.append(filled[-1] if value is None and filled else value)
    return filled


def _asked(query: str) -> str | None:
    try:
        name = parse_qs(query, max_num_fields=8).get("id", [""])[0].strip()
    except ValueError:
        return None
    return name[:_LONGEST_ID] or None


def _sides(original: Seen, item: Seen) -> Sequence[Any]:
    """(headlines, texts), each the pieces of the original and of the item."""
    return (
        differences(original.title, item.title, False, False),
        differences(original.text, item.text, original.cut, item.cut),
    )


def _figures(original: Seen, item: Seen) -> Figures:
    """Of headline and text; what the page was not told of either may hold the numbers that stand in one alone."""
    return figures(f"{original.title}\n{original.text}", f"{item.title}\n{item.text}")


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S UTC")


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _event(milliseconds: int) -> str:
    """An event time; a record may say anything."""
    try:
        return _moment(milliseconds / 1000) if milliseconds >= 0 else "unknown"
    except (OverflowError, ValueError, OSError):
        return "out of any calendar"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def duration(seconds: float) -> str:
    """
    >>> duration(604800), duration(5400), duration(42)
    ('7 days', '1.5 hours', '42 seconds')
    """
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.0f} seconds"


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"
