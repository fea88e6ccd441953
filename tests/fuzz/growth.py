"""Measure how the time of an item grows with its size, for each field and each pattern that once took too long.

In: a pattern, a field and a size. Out: the seconds of the way from bytes to a verdict (decode, fingerprint, judge,
remember). The fields are those of a record; `content` is the text of a record in NewsAPI's form, which is cut.
"""

import gc
import json
import time
from collections.abc import Sequence

import numpy as np

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import load_settings

PATTERNS = {
    "words": "the bridge over the Elm opened on Monday. ",
    "less than": "<",
    "paragraphs": "<p>",
    "elements": "<div><b>",
    "attributes": "<p a=1 b='2' c=\"3\" ",
    "names": "<p ab cd ef gh ij kl ",
    "values": "<p a=b=c ",
    "comments": "<!-- ",
    "scripts": "<script>x</script",
    "cdata": "<![CDATA[",
    "titles": "<title>",
    "hidden": "<p hidden>display: none",
    "suffixes": "x | y - ",
    "marks": " - ",
    "pipes": "|",
    "brackets": "[",
    "links": "](",
    "targets": "[x](http://a.example/",
    "targets with a title": '[x](/a "',
    "images": "![",
    "ampersands": "&",
    "references": "&#",
    "entities": "&amp;",
    "dots": "...",
    "cut": "[+9 chars] ",
    "combining": "a\u0301\u0316\u0327",
    "marks only": "\u0301",
    "spaces": " ",
    "wide spaces": "\u2003",
    "lines": "\n",
    "zero width": "\u200b",
    "one word": "a",
    "different words": "",  # made below
    "han": "漢",
    "different han": "",
    "hangul parts": "\u1112\u1161\u11ab",
    "digits": "9",
    "host": "a.",
    "address": "http://a.example/",
    "date": "2024-01-01 ",
    "date words": "Mon, of ",
    "quotes": '\\"',
    "apostrophes": "'",
    "slashes": "/",
    "surrogates": "\\ud800",
}
FIELDS = ("id", "title", "text", "source", "url", "published", "content")


def pattern_of(name: str, size: int) -> str:
    """`size` characters of a pattern, as they stand in JSON."""
    random = np.random.default_rng(15)
    if name == "different words":
        return " ".join(map(str, random.integers(0, 10**9, size // 9)))
    if name == "different han":
        return "".join(map(chr, random.integers(0x4E00, 0x9FA5, size)))
    piece = PATTERNS[name]
    text = piece * (size // len(piece) + 1)
    return text if "\\" in piece else json.dumps(text[:size], ensure_ascii=False)[1:-1]


def record_of(field: str, value: str) -> bytes:
    """A record with this text in a field. Its own headline keeps it from being empty."""
    fields = {"id": '"0"', "title": '"Mayor opens the bridge over the Elm"', "text": '"It opened on Monday."'}
    if field == "content":
        fields = {"title": fields["title"], "content": "", "description": '"x"', "publishedAt": '"2024-01-01"'}
    fields[field] = f'"{value}"'
    return ("{" + ", ".join(f'"{name}": {text}' for name, text in fields.items()) + "}").encode("utf-8", "replace")


class Measure:
    """Times items with one Deduplicator, so that its kernels are compiled and its tables warm."""

    def __init__(self) -> None:
        self._settings = load_settings()
        self._decode = Decoder(self._settings.item)

    def seconds(self, record: bytes, repeats: int) -> float:
        """Processor time, the least of some repeats. Each judges the item twice: as a new one, and as a copy."""
        best = float("inf")
        gc.collect()
        for _ in range(repeats):
            with Deduplicator(self._settings) as dedup:
                start = time.process_time()
                for _ in range(2):
                    dedup.apply(dedup.judge([self._decode(record, b"key", None, 0, 1)]))
                best = min(best, time.process_time() - start)
        return best


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of log time over log size, by least squares: 1 if the time is linear, 2 if it is quadratic.

    >>> [round(slope([10, 100, 1000], [3 * size**power for size in (10, 100, 1000)]), 6) for power in (1, 2)]
    [1.0, 2.0]
    """
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
