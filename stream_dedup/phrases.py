"""What several messages need: counted nouns, the version, and the secrets that no message may show."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

SECRETS_READ: dict[str, None] = {}
"""Secrets that this process has read from files, the oldest first; no message shows them. They stand here so that logs
need not import the settings, which takes time."""


def counted(count: int, noun: str) -> str:
    """Put a number before its noun.

    >>> counted(1, "tombstone"), counted(12_345, "item"), counted(0, "update")
    ('1 tombstone', '12,345 items', '0 updates')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def version_text() -> str:
    """Return the version of the installed package."""
    try:
        return version("stream-dedup")
    except PackageNotFoundError:  # run from a source tree that was not installed
        return "unknown (not installed)"


def scheme_text() -> str:
    """Return the id of the default fingerprints, as the header dedup-scheme has it, without computing it."""
    return Path(__file__).with_name("scheme.txt").read_text("ascii").strip()
