"""Near-duplicate detection for news: on Kafka exactly once, on files, or from Python.

`__all__` lists the public names. They are imported on first use, so that `--help` loads neither numpy nor the core.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stream_dedup.dedup.batch import Batch
    from stream_dedup.dedup.verdict import Kind, Verdict
    from stream_dedup.errors import BadItem, StreamDedupError, StreamDedupWarning, UsageError
    from stream_dedup.news.decode import Decoder
    from stream_dedup.news.item import Item, Tombstone
    from stream_dedup.script import Deduplicator
    from stream_dedup.settings import Settings, load_settings
    from stream_dedup.tools.batch.filter import filter_files
    from stream_dedup.tools.batch.pairs import find_pairs

_MODULES = {
    "dedup.batch": ("Batch",),
    "dedup.verdict": ("Kind", "Verdict"),
    "errors": ("BadItem", "StreamDedupError", "StreamDedupWarning", "UsageError"),
    "news.decode": ("Decoder",),
    "news.item": ("Item", "Tombstone"),
    "settings": ("Settings", "load_settings"),
    "tools.batch.filter": ("filter_files",),
    "tools.batch.pairs": ("find_pairs",),
    "script": ("Deduplicator",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "BadItem", "Batch", "Decoder", "Deduplicator", "Item", "Kind", "Settings", "StreamDedupError", "StreamDedupWarning",
    "Tombstone", "UsageError", "Verdict", "filter_files", "find_pairs", "load_settings",
]  # fmt: skip


def __dir__() -> list[str]:
    """List the public names for completion, imported or not."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
