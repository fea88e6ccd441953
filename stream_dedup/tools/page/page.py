"""Render the status page from the templates beside it, and serve the CSS and scripts of `static`.

The page shows the worker's health (`HealthState`), its recent numbers (`Board`), its input (`Incoming`), recent items
(`Recent`) and the metrics of its index. `templates/pairs.html` puts a held-back item beside its original, with the
reason and the evidence. News text is hostile: templates escape all of it (rendering.py), and only scripts and styles
from our own files run.
"""

import time
from collections.abc import Callable
from importlib import resources
from typing import Any
from urllib.parse import parse_qs

from stream_dedup.news.names import FIELDS
from stream_dedup.observe.health import HealthState, Status, stall_seconds
from stream_dedup.observe.http import Answer
from stream_dedup.observe.watch import Watch
from stream_dedup.settings import SOURCE_RULES
from stream_dedup.tools.page.board import HEIGHT, PAIRS, TEXT_CHARS, WIDTH, Board, Numbers, Recent, charts
from stream_dedup.tools.page.rendering import byte_size, duration, environment
from stream_dedup.tools.survey.summary import Summary, rows_of, share

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
"""A rendered page is sent again for this long. Rendering takes some 10 ms of a core, and open pages reload
themselves."""

# Pairs of a list outside the fold: with the newest one open, about a screen.
_IN_SIGHT = 8

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

# A standby further behind is not up to date. It asks for the end of the changelog once a second.
_UP_TO_DATE_SECONDS = 5.0


class Page:
    """Responds to requests for the page and its files. Safe on any thread."""

    def __init__(
        self, watch: Watch, board: Board, recent: Recent, survey: Callable[[], tuple[float, Summary] | None]
    ) -> None:
        settings = watch.settings
        self._settings, self._version, self._survey = settings, watch.version, survey
        self._state, self._board, self._recent, self._registry = watch.health.state, board, recent, watch.registry
        static = resources.files("stream_dedup.tools.page") / "static"
        self._files = {path: (kind, (static / name).read_bytes()) for path, (kind, name) in _FILES.items()}
        templates = environment(
            watch.settings, lambda partition, offset: f"input partition {partition} offset {offset}"
        )
        templates.globals |= {
            "WIDTH": WIDTH, "HEIGHT": HEIGHT, "PAIRS": PAIRS, "IN_SIGHT": _IN_SIGHT, "TEXT_CHARS": TEXT_CHARS,
        }  # fmt: skip
        self._template = templates.get_template("status.html")
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
        if item is not None and item.verdict.compared is not None:
            is_version = item.verdict.compared.id == item.verdict.id
            original = item.let_through if is_version else self._recent.find(item.verdict.compared.id)
        return self._template.render(
            settings=self._settings,
            version=self._version,
            state=state,
            advice=self._advice(state, now),
            role=_role(state, now),
            now=now,
            charts=charts(now),
            incoming=self._incoming(),
            rules=self._rules(),
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
                else "Nothing is lost. The worker resumes by itself when that is over."
            )
            return f"{state.reason[0].upper()}{state.reason[1:]}. {outcome}"
        if state.status is Status.STALLED:
            bound = duration(stall_seconds(self._settings))
            return (
                f"No sign of life, or only failures, for more than {bound}. Look at the errors below, the log, then "
                "the brokers. A restart loses nothing."
            )
        if state.status is Status.STARTING:
            restored = [f"{read / max(total, 1):.0%} of task {name}" for name, (read, total) in now.restoring.items()]
            if now.tasks:
                waiting = f"{sum(now.lag.values()):,} records wait" if now.lag else "it is not known yet how many wait"
                return f"The worker is about to commit its first batch; {waiting}."
            return "The worker restores its state from the changelog" + (
                f": {', '.join(restored)}." if restored else "."
            )
        if state.status is Status.STANDBY:
            lag = max(now.standby_lag.values(), default=None)
            return "Another member of the group is active. This one takes over when it ends." + (
                "" if lag is None
                else " It has read the changelog to its end." if lag < _UP_TO_DATE_SECONDS
                else f" It was last at the end of the changelog {duration(lag)} ago."
            )  # fmt: skip
        if now.failing:
            return (
                f"Tasks that fail and are retried: {', '.join(now.failing)}. Records of their partitions wait. "
                "See the errors below."
            )
        if any(now.lag.values()):
            return f"The worker is {sum(now.lag.values()):,} records behind the end of its input."
        return "The worker is at the end of its input." if now.lag else "It is not known yet whether records wait."

    def _index(self) -> list[tuple[str, str]]:
        values = {
            (sample.name, "".join(sample.labels.values())): sample.value
            for family in self._registry.collect()
            for sample in family.samples
        }
        forms = {"bytes": byte_size, "seconds": duration}
        rows = [
            (title, forms.get(name.rpartition("_")[2], "{:,.0f}".format)(values[name, label]))
            for title, name, label in _INDEX
            if (name, label) in values
        ]
        return [*rows, ("window", duration(self._settings.window.length.total_seconds()))]

    def _rules(self) -> list[tuple[str, int]]:
        """Return the rules for sources that are set, and how many items each let through since the start."""
        rules = [rule for rule in SOURCE_RULES if getattr(self._settings.sources, rule)]
        value = self._registry.get_sample_value
        return [(rule, int(value("stream_dedup_source_rules_total", {"rule": rule}) or 0)) for rule in rules]

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
