"""Render the status page: charts, tasks, input, last items and what to look at, as HTML.

It shows the worker's health (`HealthState`), its history (`Board`), its input (`InputSurvey`), recent items (`Recent`)
and the metrics of its index. News text is hostile: every value goes through Jinja2's automatic escaping, the templates
mark nothing as safe, and only scripts and styles from our own files run.
"""

import time
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
from stream_dedup.dedup.wording import describe_verdict
from stream_dedup.news.fields import FIELDS
from stream_dedup.news.survey import rows_of, share
from stream_dedup.observe.board import SLICE_SECONDS, Board, Snapshot
from stream_dedup.observe.charts import HEIGHT, WIDTH, Chart, chart
from stream_dedup.observe.differences import differences, figures
from stream_dedup.observe.health import HealthState, Status, stall_seconds
from stream_dedup.observe.incoming import InputSurvey
from stream_dedup.observe.recent import PAIRS, JudgedItem, Recent
from stream_dedup.settings import Settings, read_from_files, secrets_of

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
"""Content-Security-Policy: only our own files, no inline script or style, no embedding in frames."""
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
_MAX_ID_CHARS = 4096  # as in the worker
KEPT_SECONDS = 1.0
"""How long a rendered page is sent again. Rendering takes some 10 ms of a core, and open pages reload by themselves."""
# Time slices in the current rates: a minute, so that a slow feed does not show as 0.
_CURRENT_SLICES = 60 // SLICE_SECONDS

# Rows of the index section: title, unit, metric and labels. A metric without a value makes no row.
_INDEX: tuple[tuple[str, str, str, Mapping[str, str]], ...] = (
    ("originals remembered", "count", "stream_dedup_index_rows", {}),
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

# A standby that is further behind is not up to date: it asks for the end of the changelog once a second.
_UP_TO_DATE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Response:
    """The response to a request for a path."""

    content_type: str
    body: bytes
    headers: Mapping[str, str]


class Page:
    """Responds to requests for the page and its files. Safe on any thread."""

    def __init__(
        self,
        settings: Settings,
        version: str,
        state: Callable[[], HealthState],
        board: Board,
        recent: Recent,
        registry: CollectorRegistry,
        survey: Callable[[], InputSurvey | None],
    ) -> None:
        self._settings, self._version, self._survey = settings, version, survey
        self._secrets = frozenset(secrets_of(settings))
        self._state, self._board, self._recent, self._registry = state, board, recent, registry
        static = resources.files("stream_dedup.observe") / "static"
        self._files = {
            path: (content_type, (static / name).read_bytes()) for path, (content_type, name) in _FILES.items()
        }
        environment = Environment(
            loader=PackageLoader("stream_dedup.observe"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {
            "clock": _clock, "moment": _moment, "event": _event, "share": _share, "words": describe_verdict,
            "duration": duration,
        }  # fmt: skip
        environment.globals |= {
            "rows": self._evidence,
            "differences": _differences,
            "figures": _figures,
            "WIDTH": WIDTH,
            "HEIGHT": HEIGHT,
        }
        self._template = environment.get_template("status.html")
        self._kept = float("-inf"), b""  # when it was rendered, monotonic seconds, and the page

    def respond(self, path: str, query: str) -> Response | None:
        """Return the response for a path; None if there is no such path."""
        if path in self._files:
            content_type, body = self._files[path]
            return Response(content_type, body, _HEADERS)
        if path != "/":
            return None
        requested_id, (rendered_at, body) = _requested_id(query), self._kept
        if requested_id or time.monotonic() - rendered_at >= KEPT_SECONDS:
            body = self._html(requested_id).encode("utf-8", "replace")
            if not requested_id:
                self._kept = time.monotonic(), body
        return Response("text/html; charset=utf-8", body, _HEADERS)

    def _html(self, requested_id: str | None) -> str:
        now, state = self._board.snapshot(), self._state()
        item = self._recent.find(requested_id) if requested_id else None
        original = None
        if item is not None and item.verdict.original is not None:
            original = item.let_through or self._recent.find(item.verdict.original.id)
        return self._template.render(
            settings=self._settings,
            version=self._version,
            state=state,
            advice=self._advice(state, now),
            role=_role(state, now),
            now=now,
            errors=[(error, self._without_secrets(error.text)) for error in now.errors],
            charts=_charts(now),
            incoming=_incoming(self._survey(), bool(self._recent.limit)),
            index=self._index(),
            held_back=self._recent.held_back(),
            updates=self._recent.updates(),
            pairs_limit=PAIRS,
            dead_letters=self._recent.dead_letters(),
            retained={
                "count": len(self._recent),
                "limit": self._recent.limit,
                "bytes": _bytes(self._recent.nbytes),
                "since": self._recent.since(),
            },
            requested_id=requested_id,
            item=item,
            original=original if original is not item else None,
        )

    def _advice(self, state: HealthState, now: Snapshot) -> str:
        if state.reason:
            outcome = (
                "What this broker leads does not go through, the rest does, and nothing is lost. The worker goes on by "
                "itself when the certificate is right."
                if state.some_work
                else "Nothing goes through and nothing is lost. The worker resumes by itself when the brokers are back."
            )
            return f"{state.reason[0].upper()}{state.reason[1:]}. {outcome}"
        if state.status is Status.STALLED:
            bound = duration(stall_seconds(self._settings))
            return (
                f"No sign of life, or only failures, for more than {bound}. Look at the errors below, the log, then "
                "the brokers. A restart loses nothing."
            )
        if state.status is Status.STARTING:
            done = [
                f"{read / max(total, 1):.0%} of task {name}" for name, (read, total) in now.restore_progress.items()
            ]
            return "The worker restores its state from the changelog" + (f": {', '.join(done)}." if done else ".")
        if state.status is Status.STANDBY:
            return (
                f"Another member of the group is active. This one takes over when it ends. {_standby_lag(now)}".rstrip()
            )
        if now.failing:
            return (
                f"Tasks that fail and are retried: {', '.join(now.failing)}. Records of their partitions wait. "
                "See the errors below."
            )
        if any(now.lag.values()):
            return f"The worker is {sum(now.lag.values()):,} records behind the end of its input."
        return "The worker is at the end of its input."

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
        """Rows of the evidence: what was compared, its value, and the threshold."""
        e, d = verdict.evidence or Evidence(), self._settings.decision
        rows = [
            ("headline: words in common", e.headline, None),
            ("text: phrases in common", e.body, d.body if d.rule == "jaccard" else None),
            ("text: share of the shorter one found in the other", e.containment, None),
            ("article: share that the original holds", e.covered, None),
            ("article: share of words that the original lacks", e.new_share, None),
            ("novelty: how likely it has something new", e.novelty, d.threshold),
        ]
        return [(name, _share(value), _share(needed)) for name, value, needed in rows if value is not None]

    def _without_secrets(self, text: str) -> str:
        for secret in sorted({*self._secrets, *read_from_files()}, key=len, reverse=True):
            text = text.replace(secret, "**********")
        return text


def _standby_lag(now: Snapshot) -> str:
    """Say how far a standby is behind."""
    if not now.standby_lag:
        return ""
    blocks, seconds = max(now.standby_lag.values(), key=lambda lag: lag[1])
    if seconds < _UP_TO_DATE_SECONDS:
        return "It has read the changelog to its end."
    return f"It is {blocks:,} blocks behind the changelog, and was last at its end {duration(seconds)} ago."


def _role(state: HealthState, now: Snapshot) -> str:
    if now.tasks:
        return "active"
    if now.restore_progress:
        return "restoring"
    return "standby" if state.status is Status.STANDBY else "none yet"


def _charts(now: Snapshot) -> list[Chart]:
    slices, last = now.slices, now.slices[-_CURRENT_SLICES - 1 : -1]  # the newest slice is incomplete
    items, held_back = sum(part.items for part in last), sum(part.held_back for part in last)
    rate = items / (len(last) * SLICE_SECONDS)
    slowest = max((part.slowest_transaction for part in last if part.slowest_transaction is not None), default=None)
    lag = sum(now.lag.values()) if now.lag else None
    let_through = [(part.items - part.held_back) / SLICE_SECONDS for part in slices]
    times = [None if part.slowest_transaction is None else 1000 * part.slowest_transaction for part in slices]
    return [
        chart(
            "rate", "Items a second", "/s",
            {"let through": let_through, "held back": [part.held_back / SLICE_SECONDS for part in slices]},
            f"{rate:,.1f}", 1,
        ),
        chart(
            "share", "Share held back", "%",
            {"share": [100 * part.held_back / part.items if part.items else None for part in slices]},
            f"{100 * held_back / items:.0f} %" if items else "no items",
        ),
        chart(
            "transaction", "Slowest transaction", "ms",
            {"time": times},
            "none" if slowest is None else f"{1000 * slowest:,.0f} ms",
        ),
        chart(
            "lag", "Lag", "records", {"lag": _forward_filled([part.lag for part in slices])},
            "not known" if lag is None else f"{lag:,}",
        ),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Incoming:
    """The input as the page shows it. `fields`: (field, how often filled, percentage for a bar, first value)."""

    since: float
    fields: list[tuple[str, str, int, str]]
    rows: list[tuple[str, str]]
    reasons: list[str]
    warnings: list[str]


def _incoming(survey: InputSurvey | None, shows_items: bool) -> _Incoming | None:
    if survey is None:
        return None
    summary = survey.summary
    fields = [
        (
            name,
            share(summary, name),
            round(100 * summary.filled[name] / summary.looked),
            summary.samples.get(name, "-") if shows_items else "",
        )
        for name in FIELDS
        if summary.looked
    ]
    rows = [row for row in rows_of(summary) if row[0] != "filled"]
    return _Incoming(survey.since, fields, rows, summary.reasons, [warning.text for warning in summary.warnings])


def _forward_filled(values: Iterable[float | None]) -> list[float | None]:
    """Replace each None by the last value before it."""
    filled: list[float | None] = []
    for value in values:
        filled.append(filled[-1] if value is None and filled else value)
    return filled


def _requested_id(query: str) -> str | None:
    try:
        item_id = parse_qs(query, max_num_fields=8).get("id", [""])[0].strip()
    except ValueError:
        return None
    return item_id[:_MAX_ID_CHARS] or None


def _differences(original: JudgedItem, item: JudgedItem) -> Sequence[Any]:
    """Return (headlines, texts), each as segments of the original and of the item."""
    return (
        differences(original.title, item.title, False, False),
        differences(original.text, item.text, original.truncated, item.truncated),
    )


def _figures(original: JudgedItem, item: JudgedItem) -> Figures:
    """Compare the numbers of headline and text, as far as they are retained: the rest of a text may hold more."""
    return figures(f"{original.title}\n{original.text}", f"{item.title}\n{item.text}")


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S UTC")


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _event(milliseconds: int) -> str:
    """Format an event time; a record may contain any number."""
    try:
        return _moment(milliseconds / 1000) if milliseconds >= 0 else "unknown"
    except (OverflowError, ValueError, OSError):
        return "out of any calendar"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def duration(seconds: float) -> str:
    """Format a duration in its largest unit.

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
