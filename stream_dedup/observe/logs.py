"""Log records -> lines on stderr: one JSON object a line for machines, or a quiet line for people.

In: records of the standard library's loggers, ours and other libraries'. Out: with `json` the fields time, level,
logger, event, what a call gave as `extra`, and exception; with `text` the time and the message, the level only from
warning on. Secrets are named once and come out as stars, whoever logs them and wherever they stand; control
characters, which could rewrite a terminal's lines, come out as a replacement character. Done with structlog.
"""

import logging
import sys
from collections.abc import Iterable, MutableMapping
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:  # a command that logs nothing waits for neither
    from stream_dedup.settings import Settings

Form = Literal["json", "text"]
Event = MutableMapping[str, Any]  # as structlog passes it on
STARS = "***"
# Another handler's formatter leaves these on a record; what they say stands in `event` and `time`.
_LEFT_BY_OTHERS = ("message", "asctime")


def form_of(settings: "Settings", terminal: bool) -> Form:
    """[observe] log_format, `auto` settled.

    >>> from stream_dedup.settings import load_settings
    >>> form_of(load_settings(), terminal=True), form_of(load_settings(), terminal=False)
    ('text', 'json')
    """
    chosen = settings.observe.log_format
    if chosen == "auto":
        return "text" if terminal else "json"
    return chosen


def secrets_of(settings: "Settings") -> list[str]:
    """What no line may show."""
    password = settings.kafka.sasl_password
    return [password.get_secret_value()] if password is not None else []


def set_up(form: Form, secrets: Iterable[str] = ()) -> None:
    """From now on every record that its logger's level lets pass becomes a line; replaces an earlier `set_up`."""
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, _Stderr)]:
        root.removeHandler(handler)
    root.addHandler(_Stderr(form, secrets))


def machine_readable() -> bool:
    """Whether lines are JSON at the moment."""
    return any(one.form == "json" for one in logging.getLogger().handlers if isinstance(one, _Stderr))


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to what sys.stderr is at the moment, not to what it was when the handler was made.

    Its formatter is made for the first record: structlog takes a tenth of a second to import, and most commands log
    nothing.
    """

    def __init__(self, form: Form, secrets: Iterable[str]) -> None:
        logging.Handler.__init__(self)
        self.form = form
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        if self.formatter is None:
            self.setFormatter(_formatter(self.form, self._secrets))
        return super().format(record)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]  # the base class has an attribute
        return sys.stderr


def _formatter(form: Form, secrets: Iterable[str]) -> logging.Formatter:
    import structlog

    renderers = [structlog.processors.JSONRenderer()] if form == "json" else [_text]
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
            _Redact(secrets),
            *renderers,
        ],
        use_get_message=True,
    )


class _Redact:
    """Takes secrets out of every text of a record."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first: one may stand in another.
        self._secrets = sorted((one for one in secrets if one), key=len, reverse=True)

    def __call__(self, _logger: Any, _method: str, event: Event) -> Event:
        return {name: self._clean(value) for name, value in event.items() if name not in _LEFT_BY_OTHERS}

    def _clean(self, value: Any) -> Any:
        if isinstance(value, (bool, int, float, type(None))):
            return value
        if isinstance(value, (list, tuple)):
            return [self._clean(one) for one in value]
        text = str(value)
        for secret in self._secrets:
            text = text.replace(secret, STARS)
        return text


def _text(_logger: Any, _method: str, event: Event) -> str:
    """A line for people.

    >>> _text(None, "", {"time": "12:00:01", "level": "info", "logger": "x", "event": "works again", "task": "0"})
    '12:00:01 works again'
    >>> _text(None, "", {"time": "12:00:01", "level": "warning", "event": "no broker"})
    '12:00:01 WARNING no broker'
    """
    level = "" if event["level"] in ("info", "debug") else f"{event['level'].upper()} "
    exception = f"\n{event['exception']}" if event.get("exception") else ""
    line = f"{event['time']} {level}{event['event']}{exception}"
    return "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in line)
