"""Phrases that several messages need: counted nouns, and commands that a reader can run as they stand."""

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname


def counted(count: int, noun: str) -> str:
    """Put a number before its noun.

    >>> counted(1, "tombstone"), counted(12_345, "item"), counted(0, "update")
    ('1 tombstone', '12,345 items', '0 updates')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def install_command(extra: str) -> str:
    """Return the command that installs an extra into this Python.

    No package index has this project, so the command names the clone or the wheel from which it was installed.
    """
    try:
        origin = json.loads(distribution("stream-dedup").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    url = urlsplit(origin.get("url", ""))
    path = url2pathname(url.path) if url.scheme == "file" else ""
    source = path if path and Path(path).exists() else "PATH-OF-CLONE-OR-WHEEL"
    editable = "--editable " if origin.get("dir_info", {}).get("editable") else ""
    return f"{sys.executable} -m pip install {editable}{shlex.quote(f'{source}[{extra}]')}"
