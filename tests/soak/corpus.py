"""Real items for the soak: the records of a JSON Lines file (.gz too), over and over.

In: a file whose records have `id`, `title`, `text` and `source`. Out: `Made` records as in tests/model/items.py,
but without a truth about who is a copy of whom; the real fingerprints decide. Each pass over the file gives new ids, so
the second one brings copies only.
"""

import gzip
import json
import random
from pathlib import Path

from tests.model.items import Made
from tests.model.log import Record

_TOMBSTONES, _BAD, _VERSIONS = 0.02, 0.02, 0.03
_RECENT = 200


class Corpus:
    """Makes records from the file; `make` has the signature of `Source.make`."""

    def __init__(self, path: Path, rng: random.Random) -> None:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as lines:
            every = [json.loads(line) for line in lines]
        self._items = [one for one in every if one.get("title") and one.get("text")]
        self._rng = rng
        self._next = rng.randrange(len(self._items))
        self._recent: list[str] = []
        self._number = 0

    def make(self, now: int) -> Made:
        self._number += 1
        number, draw = self._number, self._rng.random()
        if draw < _BAD:
            return Made(number, Record(None, b'{"id": ', [], now), f"bad-{number}", 0, "bad")
        if draw < _BAD + _TOMBSTONES and self._recent:
            name = self._rng.choice(self._recent)
            return Made(number, Record(name.encode(), None, [], now), name, 0, "tombstone")
        self._next += 1
        item = self._items[self._next % len(self._items)]
        name = f"{item['id']}-{number}"
        if draw < _BAD + _TOMBSTONES + _VERSIONS and self._recent:
            name = self._rng.choice(self._recent)
        self._recent = [*self._recent[1 - _RECENT :], name]
        fields = {"id": name, **{field: item.get(field, "") for field in ("title", "text", "source")}}
        return Made(number, Record(name.encode(), json.dumps(fields).encode(), [], now), name, 0, "item")
