"""Format log records as lines on stderr, with secrets replaced and control characters escaped.

Covers all loggers of the standard library, those of other libraries included. A `json` line has the fields time, level,
logger, event, the call's `extra`, and exception. A `text` line has the time and the message, and the level from warning
on. Secrets are registered once and replaced by stars in every field of every record. Uses structlog.

Control characters are escaped in what is printed and logged, so that foreign text cannot steer a terminal. Headlines,
ids and names of files, topics and settings are foreign text: it could rename the window, rewrite earlier lines, or show
a text in another order than it has. `escape_controls` is the one place that says which characters those are. Everything
a command prints passes it: standard output and standard error through a `CleanStream`, consoles of rich (whose own
codes must pass) in cli/common.py, log lines here. Outputs of data (`--output -`) are written by file descriptor, and
stay as they are.
"""

import logging
import re
import sys
from collections.abc import Iterable, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TextIO

from stream_dedup.phrases import SECRETS_READ

if TYPE_CHECKING:  # the import takes time, and most commands log nothing
    from stream_dedup.settings import Settings

Form = Literal["json", "text"]
Event = MutableMapping[str, Any]  # as structlog passes it on
STARS = "***"
# Another handler's formatter leaves these on a record; `event` and `time` say the same.
_FORMATTER_FIELDS = ("message", "asctime")


def form_of(settings: "Settings", terminal: bool) -> Form:
    """Return [observe] log_format, with `auto` resolved.

    >>> from stream_dedup.settings import load_settings
    >>> form_of(load_settings(), terminal=True), form_of(load_settings(), terminal=False)
    ('text', 'json')
    """
    chosen = settings.observe.log_format
    if chosen == "auto":
        return "text" if terminal else "json"
    return chosen


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Replace these secrets, and those that were read from files, by stars."""
    for secret in sorted({*secrets, *SECRETS_READ} - {""}, key=len, reverse=True):  # one may contain another
        text = text.replace(secret, STARS)
    return text


def set_up(form: Form, secrets: Iterable[str] = ()) -> None:
    """Send the records of all loggers to stderr in this form; replaces an earlier `set_up`."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Stderr)]:
        root.removeHandler(handler)
    root.addHandler(_Stderr(form, secrets))


def machine_readable() -> bool:
    """Return whether log lines are JSON at present."""
    return any(isinstance(handler, _Stderr) and handler.form == "json" for handler in logging.getLogger().handlers)


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to the current sys.stderr, not to that of the handler's construction.

    The first record makes the formatter: importing structlog takes a tenth of a second, and most commands log nothing.
    """

    def __init__(self, form: Form, secrets: Iterable[str]) -> None:
        logging.Handler.__init__(self)
        self.form = form
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        if self.formatter is None:
            self.setFormatter(_formatter(self.form, self._secrets))
        return escape_controls(super().format(record))

    @property
    def stream(self) -> TextIO:  # type: ignore[override]  # the base class has an attribute
        return sys.stderr


def _formatter(form: Form, secrets: Iterable[str]) -> logging.Formatter:
    import structlog

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(
                fmt="iso" if form == "json" else "%H:%M:%S", utc=form == "json", key="time"
            ),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            partial(_redact, secrets),
            structlog.processors.JSONRenderer() if form == "json" else _text,
        ],
        use_get_message=True,
    )


def _redact(secrets: Iterable[str], _logger: Any, _method: str, event: Event) -> Event:
    """Replace secrets in every text of a record."""

    def clean(value: Any) -> Any:
        if isinstance(value, (bool, int, float, type(None))):
            return value
        if isinstance(value, (list, tuple)):
            return list(map(clean, value))
        return without_secrets(str(value), secrets)

    return {name: clean(value) for name, value in event.items() if name not in _FORMATTER_FIELDS}


def _text(_logger: Any, _method: str, event: Event) -> str:
    """Format a line for people.

    >>> _text(None, "", {"time": "12:00:01", "level": "info", "logger": "x", "event": "works again", "task": "0"})
    '12:00:01 works again'
    >>> _text(None, "", {"time": "12:00:01", "level": "warning", "event": "no broker"})
    '12:00:01 WARNING no broker'
    """
    level = "" if event["level"] in ("info", "debug") else f"{event['level'].upper()} "
    exception = f"\n{event['exception']}" if event.get("exception") else ""
    return f"{event['time']} {level}{event['event']}{exception}"


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

    def write(self, text: str) -> int:
        self.uncleaned.write(escape_controls(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # its bytes would pass by
            raise AttributeError(name)
        return getattr(self.uncleaned, name)
