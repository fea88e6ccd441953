"""Render the status page from the templates in observe/templates, and serve the CSS and scripts of observe/static.

It shows the worker's health (`HealthState`), its recent numbers (`Board`), its input (`Incoming`), recent items
(`Recent`) and the metrics of its index. News text is hostile: every value goes through Jinja2's automatic escaping, the
template marks nothing as safe, and only scripts and styles from our own files run.

What the page shows of a held-back item: `Recent` keeps it with its original, the macro `pairs` of the template puts
both texts side by side, `_differences` says what to mark, `_evidence` what was compared, and `describe_verdict` why.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache, partial
from importlib import resources
from typing import Any
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader, StrictUndefined
from prometheus_client import CollectorRegistry

from stream_dedup.dedup.passages import Side, compare_texts
from stream_dedup.dedup.verdict import Evidence, Verdict, describe_verdict
from stream_dedup.news.fields import FIELDS
from stream_dedup.news.survey import Summary, rows_of, share
from stream_dedup.observe.health import HealthState, Status, stall_seconds
from stream_dedup.observe.http import Answer
from stream_dedup.observe.logs import without_secrets
from stream_dedup.observe.recent import HEIGHT, PAIRS, WIDTH, Board, JudgedItem, Numbers, Recent, charts
from stream_dedup.settings import Settings, secrets_of

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

# Rows of the index section: title, metric and label. A metric without a value makes no row.
_INDEX = (
    ("originals remembered", "stream_dedup_index_rows", ""),
    ("sorted runs", "stream_dedup_index_runs", ""),
    ("oldest original, before the newest item", "stream_dedup_window_age_seconds", ""),
    ("forgotten early: more than window.max_originals", "stream_dedup_evicted_originals_total", ""),
    ("times that were missing", "stream_dedup_odd_times_total", "missing"),
    ("times ahead of the clock", "stream_dedup_odd_times_total", "future"),
    ("times unlike those around them", "stream_dedup_odd_times_total", "alone"),
    ("times late by more than the window", "stream_dedup_odd_times_total", "late"),
    ("times in 1970: seconds for milliseconds?", "stream_dedup_odd_times_total", "seconds"),
    ("memory of the tables", "stream_dedup_memory_bytes", "keys"),
    ("memory of the sketches", "stream_dedup_memory_bytes", "signatures"),
    ("memory of whole bodies", "stream_dedup_memory_bytes", "bodies"),
    ("memory of the ids", "stream_dedup_memory_bytes", "ids"),
    ("memory of the process", "process_resident_memory_bytes", ""),
)

# A standby that is further behind is not up to date: it asks for the end of the changelog once a second.
_UP_TO_DATE_SECONDS = 5.0


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
        survey: Callable[[], tuple[float, Summary] | None],
    ) -> None:
        self._settings, self._version, self._survey = settings, version, survey
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
            "clock": _clock, "moment": _moment, "event": _event, "words": describe_verdict, "duration": duration,
            "bytes": _bytes, "secretless": partial(without_secrets, secrets=secrets_of(settings)),
        }  # fmt: skip
        environment.globals |= {
            "rows": self._evidence, "differences": _differences, "WIDTH": WIDTH, "HEIGHT": HEIGHT, "PAIRS": PAIRS,
        }  # fmt: skip
        self._template = environment.get_template("status.html")
        self._kept = float("-inf"), b""  # when it was rendered, monotonic seconds, and the page

    def respond(self, path: str, query: str) -> Answer | None:
        """Return the response for a path; None if there is no such path."""
        if path in self._files:
            content_type, body = self._files[path]
            return Answer(content_type, body, _HEADERS)
        if path != "/":
            return None
        requested_id, (rendered_at, body) = _requested_id(query), self._kept
        if requested_id or time.monotonic() - rendered_at >= KEPT_SECONDS:
            body = self._html(requested_id).encode("utf-8", "replace")
            if not requested_id:
                self._kept = time.monotonic(), body
        return Answer("text/html; charset=utf-8", body, _HEADERS)

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
            charts=charts(now),
            incoming=self._incoming(),
            index=self._index(),
            recent=self._recent,
            requested_id=requested_id,
            item=item,
            original=original if original is not item else None,
        )

    def _advice(self, state: HealthState, now: Numbers) -> str:
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
            done = [f"{read / max(total, 1):.0%} of task {name}" for name, (read, total) in now.restoring.items()]
            return "The worker restores its state from the changelog" + (f": {', '.join(done)}." if done else ".")
        if state.status is Status.STANDBY:
            behind = max(now.standby_lag.values(), default=None)
            return "Another member of the group is active. This one takes over when it ends." + (
                "" if behind is None
                else " It has read the changelog to its end." if behind < _UP_TO_DATE_SECONDS
                else f" It was last at the end of the changelog {duration(behind)} ago."
            )  # fmt: skip
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
            (sample.name, "".join(sample.labels.values())): sample.value
            for family in self._registry.collect()
            for sample in family.samples
        }
        forms = {"bytes": _bytes, "seconds": duration}
        rows = [
            (title, forms.get(name.rpartition("_")[2], "{:,.0f}".format)(values[name, label]))
            for title, name, label in _INDEX
            if (name, label) in values
        ]
        return [*rows, ("window", duration(self._settings.window.length.total_seconds()))]

    def _incoming(self) -> dict[str, Any] | None:
        """Return the input as the page shows it. `fields`: (field, how often filled, percentage, first value)."""
        survey = self._survey()
        if survey is None:
            return None
        since, summary = survey
        fields = [
            (name, share(summary, name), round(100 * summary.filled[name] / summary.looked), summary.samples.get(name))
            for name in FIELDS
            if summary.looked
        ]
        rows = [row for row in rows_of(summary) if row[0] != "filled"]
        return {"since": since, "summary": summary, "fields": fields, "rows": rows}

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


def _role(state: HealthState, now: Numbers) -> str:
    if now.tasks:
        return "active"
    if now.restoring:
        return "restoring"
    return "standby" if state.status is Status.STANDBY else "none yet"


def _requested_id(query: str) -> str | None:
    try:
        item_id = parse_qs(query, max_num_fields=8).get("id", [""])[0].strip()
    except ValueError:
        return None
    return item_id[:_MAX_ID_CHARS] or None


Segments = list[tuple[str, bool]]


def _differences(original: JudgedItem, item: JudgedItem) -> list[tuple[Segments, Segments]]:
    """Return (headlines, texts), each as segments of the original and of the item: text, and whether to mark it."""
    cut = original.truncated, item.truncated
    return [_marked(original.title, item.title, (False, False)), _marked(original.text, item.text, cut)]


# The page compares the same fifty pairs at each refresh; a pair takes some .3 ms.
@lru_cache(maxsize=256)
def _marked(first: str, second: str, cut: tuple[bool, bool]) -> tuple[Segments, Segments]:
    """Split both texts into segments, marked where the other text lacks them. `cut`: a text goes on after its end.

    >>> _marked("The bridge opened on Monday.", "The bridge opened on Sunday.", (False, False))[1]
    [('The bridge opened on ', False), ('Sunday.', True)]
    """
    passages = compare_texts(first, second).passages
    # A last passage of one text alone is no difference if the other text was cut there.
    cut_off = {Side.FIRST: cut[1], Side.SECOND: cut[0], Side.BOTH: False}
    unsure = passages[-1] if passages and cut_off[passages[-1].where] else None
    marked = [(passage, passage.where is not Side.BOTH and passage is not unsure) for passage in passages]
    return (
        [(passage.first, differs) for passage, differs in marked if passage.first],
        [(passage.second, differs) for passage, differs in marked if passage.second],
    )


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
