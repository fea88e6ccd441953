"""The input of a benchmark: texts of your own JSON Lines files, or of the synthetic feed of the demo."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import ItemSettings
from stream_dedup.tools.demo.newsroom import sample_feed
from stream_dedup.tools.inputs.lines import read_lines


def news(paths: Sequence[Path], limit: int) -> list[tuple[bytes, Item]]:
    """Read up to `limit` (record, item) pairs from files, or from the synthetic feed without files. Skip bad ones."""
    decode = Decoder(ItemSettings())
    out: list[tuple[bytes, Item]] = []
    for line in _lines(paths, limit):
        item = decode(line, None, None)
        if isinstance(item, Item):
            out.append((line, item))
        if len(out) == limit:
            break
    return out


def _lines(paths: Sequence[Path], limit: int) -> Iterator[bytes]:
    if not paths:
        yield from map(msgspec.json.encode, sample_feed(limit))
    for path in paths:
        yield from read_lines(path)


def lengthened(records: Sequence[bytes], times: int) -> list[bytes]:
    """Repeat the records `times` times, each time in other words: every Latin vowel becomes the next one.

    Copies stay copies and links stay links, and hardly any word occurs in an earlier repetition. (Words in other
    scripts do not change.)

    >>> lengthened([b'{"id":1,"title":"Elm","text":"A [bridge](https://b.example)"}'], 2)[1]
    b'{"id":"1+","title":"Ilm","text":"E [brodgi](https://b.ixempli)"}'
    """
    out = list(records)
    for _ in range(1, times):
        for record in out[-len(records) :]:
            fields = msgspec.json.decode(record)
            changed = {n: fields[n].translate(_NEXT_VOWEL) for n in ("title", "text") if isinstance(fields.get(n), str)}
            out.append(msgspec.json.encode(fields | changed | {"id": f"{fields.get('id')}+"}))
    return out


_NEXT_VOWEL = str.maketrans("aeiouAEIOU", "eiouaEIOUA")


def all_unique(items: list[tuple[bytes, Item]]) -> list[tuple[bytes, Item]]:
    """Shuffle the words of each text (characters in scripts without spaces), so that no two texts are similar."""
    random = np.random.default_rng(1)
    out = []
    for n, (_, item) in enumerate(items):
        words = item.text.split()
        space = " " if len(words) > len(item.text) / 20 else ""
        parts = words if space else list(item.text)
        random.shuffle(parts)
        text = space.join(parts)
        shuffled = msgspec.structs.replace(item, id=f"u{n}", title=f"{n} {space.join(parts[:8])}", text=text)
        record = {"id": shuffled.id, "title": shuffled.title, "text": shuffled.text, "source": shuffled.source}
        out.append((msgspec.json.encode(record), shuffled))
    return out


@dataclass
class Run:
    """The input of the sections. Expensive inputs are made at their first use."""

    full: bool
    corpora: Sequence[Path]
    items: int
    rounds: int

    @cached_property
    def news(self) -> list[tuple[bytes, Item]]:
        return news(self.corpora, self.items)

    @cached_property
    def unique(self) -> list[tuple[bytes, Item]]:
        return all_unique(self.news)

    def kind(self) -> str:
        name = " + ".join(path.name for path in self.corpora) or "the made-up feed"
        return f"{'full' if self.full else 'quick'}, {self.items} items of {name}, {self.rounds} rounds"
