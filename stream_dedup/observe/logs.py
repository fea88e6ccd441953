"""Format log records as lines on stderr, with secrets replaced and control characters escaped.

This covers all loggers of the standard library, also those of other libraries. A `json` line has the fields time,
level, logger, event, the call's `extra`, and exception. A `text` line has the time and the message, and the level from
warning on. Secrets are registered once, and stars replace them in every field of every record.

A command that runs for long does not wait for the reader of stderr: it would hang when the reader hangs, in the middle
of a commit and deaf to SIGTERM. There a thread writes the lines from a bounded queue. Lines beyond the bound are
dropped and counted; once the log is read again, a line in their place says how many are missing.

Control characters are escaped, so that foreign text cannot steer a terminal. Headlines, ids and names of files, topics
and settings are foreign text: they could rename the window, rewrite earlier lines, or show a text in a false order.
Only `escape_controls` defines these characters. All that a command prints passes it: standard output and standard error
through a `CleanStream`, text with styles (whose codes must pass) in tools/terminal.py, log lines here. Outputs of data
(`--output -`) are written by file descriptor, and stay as they are.
"""

import json
import logging
import os
import re
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from stream_dedup.phrases import SECRETS_READ

Form = Literal["json", "text"]
STARS = "***"
# What every record has, and what another handler's formatter leaves on it; the rest is the call's `extra`.
_OF_EVERY_RECORD = {*vars(logging.makeLogRecord({})), "message", "asctime"}


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Replace these secrets, and those that were read from files, by stars."""
    for secret in sorted({*secrets, *SECRETS_READ} - {""}, key=len, reverse=True):  # one may contain another
        text = text.replace(secret, STARS)
    return text


def set_up(form: Form, secrets: Iterable[str] = (), *, waits: bool = True) -> None:
    """Send the records of all loggers to stderr in this form; replaces an earlier `set_up`.

    waits: False drops lines rather than wait for the reader of stderr.
    """
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Stderr)]:
        root.removeHandler(handler)
    root.addHandler((_Stderr if waits else _QueuedStderr)(form, secrets))


def machine_readable() -> bool:
    """Return whether log lines are JSON at present."""
    return any(isinstance(handler, _Stderr) and handler.form == "json" for handler in logging.getLogger().handlers)


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to the current sys.stderr, not to that of the handler's construction."""

    def __init__(self, form: Form, secrets: Iterable[str]) -> None:
        logging.Handler.__init__(self)
        self.form = form
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        event = _redacted(_event(record), self._secrets)
        return escape_controls(json.dumps(event) if self.form == "json" else _text(record.created, event))

    @property
    def stream(self) -> TextIO:  # type: ignore[override]  # the base class has an attribute
        return sys.stderr


# Some thousand lines, as in an hour of trouble.
_MOST_BYTES = 2**20
# How long a stop waits for the reader; it has ten seconds in all.
_FLUSH_SECONDS = 1.0


class _QueuedStderr(_Stderr):
    """Never waits for the reader of stderr. The thread is a daemon and writes past Python's buffers, so that the
    process can end while it waits.
    """

    def __init__(self, form: Form, secrets: Iterable[str]) -> None:
        super().__init__(form, secrets)
        self._lines: deque[bytes] = deque()
        self._size = self._dropped = 0  # bytes in the queue; dropped lines that the log has not mentioned yet
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.stream.fileno()
        except (AttributeError, OSError, ValueError):  # a stream in memory
            super().emit(record)
            return
        try:
            line = self._encoded(record)
        except Exception:  # noqa: BLE001 - as every handler does
            self.handleError(record)
            return
        with self._changed:
            if self._size + len(line) > _MOST_BYTES:
                self._dropped += 1
                return
            self._say_what_was_dropped()
            self._append(line)
            if self._thread is None or not self._thread.is_alive():  # after a fork it is not
                self._thread = threading.Thread(target=self._write, name="log", daemon=True)
                self._thread.start()

    def flush(self) -> None:
        """Wait until everything is written, but not long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines, _FLUSH_SECONDS)

    def _encoded(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}{self.terminator}".encode("utf-8", "backslashreplace")

    def _append(self, line: bytes) -> None:
        self._lines.append(line)
        self._size += len(line)
        self._changed.notify_all()

    def _say_what_was_dropped(self) -> None:
        if dropped := self._dropped:
            self._dropped = 0
            text = "%d lines are missing here: standard error was not read, and this process does not wait for that"
            self._append(self._encoded(logging.LogRecord(__name__, logging.WARNING, "", 0, text, (dropped,), None)))

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                line = self._lines[0]  # it stays in the queue until it is written
            with suppress(OSError, ValueError):  # it will not be read again
                while line:
                    line = line[os.write(self.stream.fileno(), line) :]
            with self._changed:
                self._size -= len(self._lines.popleft())
                if not self._lines:
                    self._say_what_was_dropped()
                self._changed.notify_all()


def _event(record: logging.LogRecord) -> dict[str, Any]:
    fields = {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    event = {"time": time, "level": record.levelname.lower(), "logger": record.name, "event": record.getMessage()}
    raised = {"exception": "".join(traceback.format_exception(*record.exc_info)).rstrip()} if record.exc_info else {}
    return event | fields | raised


def _redacted(event: Mapping[str, Any], secrets: Iterable[str]) -> dict[str, Any]:
    """Replace secrets in every text of a record."""

    def clean(value: Any) -> Any:
        if isinstance(value, (bool, int, float, type(None))):
            return value
        if isinstance(value, (list, tuple)):
            return list(map(clean, value))
        return without_secrets(str(value), secrets)

    return {name: clean(value) for name, value in event.items()}


def _text(created: float, event: Mapping[str, Any]) -> str:
    """Format a line for people, with the time of their clock. created: seconds since 1970.

    >>> _text(0.0, {"level": "info", "event": "works again", "task": "0"})[8:]
    ' works again'
    >>> _text(0.0, {"level": "warning", "event": "no broker"})[8:]
    ' WARNING no broker'
    """
    time = datetime.fromtimestamp(created)
    level = "" if event["level"] in ("info", "debug") else f"{event['level'].upper()} "
    exception = f"\n{event['exception']}" if event.get("exception") else ""
    return f"{time:%H:%M:%S} {level}{event['event']}{exception}"


# C0 but tab and line feed, DEL, C1, separators of lines, marks of writing direction, unpaired surrogates.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    r"""Show control characters as JSON escapes them; so JSON stays equal after parsing.

    >>> escape_controls("a\x1b[31m\tb\x9b1m \u202ec\n")
    'a\\u001b[31m\tb\\u009b1m \\u202ec\n'
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class CleanStream:
    """A text stream with control characters escaped. `uncleaned`: the stream that it writes to."""

    def __init__(self, stream: Any) -> None:
        self.uncleaned = stream

    def write(self, text: str | bytes) -> int:
        # click writes bytes where it completes words for a shell.
        self.uncleaned.write(escape_controls(text if isinstance(text, str) else text.decode()))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # its bytes would pass by
            raise AttributeError(name)
        return getattr(self.uncleaned, name)
