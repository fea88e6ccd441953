"""What several messages need: counted nouns, times, the version, and the secrets that no message may show."""

from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

SECRETS_READ: dict[str, None] = {}
"""Secrets that this process has read from files, the oldest first; no message shows them. They stand here so that logs
need not import the settings, which takes time."""
_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000))


def counted(count: int, noun: str) -> str:
    """Put a number before its noun.

    >>> counted(1, "tombstone"), counted(12_345, "item"), counted(0, "update")
    ('1 tombstone', '12,345 items', '0 updates')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def moment(milliseconds: int) -> str:
    """Format a time in ms since 1970.

    >>> moment(1_700_000_000_000), moment(10**17)
    ('2023-11-14 22:13 UTC', 'out of any calendar')
    """
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "out of any calendar"


def span(milliseconds: int) -> str:
    """Format a duration in ms by its largest unit, as in "1 day".

    For "36h", as a setting, see `duration` in tools/reference.py; for "1.5 hours", that in tools/page/rendering.py.

    >>> span(90_000_000), span(3_600_000), span(10)
    ('1 day', '1 hour', 'under a second')
    """
    for unit, size in _UNITS:
        if milliseconds >= size:
            return counted(milliseconds // size, unit)
    return "under a second"


def version_text() -> str:
    """Return the version of the installed package."""
    try:
        return version("stream-dedup")
    except PackageNotFoundError:  # run from a source tree that was not installed
        return "unknown (not installed)"


def scheme_text() -> str:
    """Return the id of the default fingerprints, as the header dedup-scheme has it, without computing it."""
    return Path(__file__).with_name("scheme.txt").read_text("ascii").strip()
