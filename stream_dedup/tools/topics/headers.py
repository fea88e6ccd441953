"""Read the headers that a worker adds (worker/outgoing.py): where a record comes from, and whether it was held back."""

import re
from typing import Any

from stream_dedup.worker.outgoing import EVIDENCE, REASON, SOURCE, VERDICT

# At the end of a header; as many digits as 32 and 64 bits surely hold.
_PLACE = re.compile(rb"/(\d{1,9})/(\d{1,18})\Z")


def place_of(record: Any) -> tuple[int, int]:
    """Return partition and offset of a republished record in the input; (-1, -1) if our header is missing.

    Other programs may have written to the output too, with any value under our name.

    >>> from types import SimpleNamespace
    >>> place_of(SimpleNamespace(headers=[("dedup-source", b"news/raw/3/77")]))
    (3, 77)
    """
    for name, value in reversed(record.headers):
        if name == SOURCE and value:
            place = _PLACE.search(value)
            return (int(place[1]), int(place[2])) if place else (-1, -1)
    return -1, -1


def was_held_back(record: Any) -> bool:
    """Return whether a record that a worker wrote was held back; in the output it is then a copy of shadow mode.

    Headers before our verdict came with the item, from an earlier deduplicator for example, or belong to an update or
    a duplicate that was let through.

    >>> from types import SimpleNamespace
    >>> theirs, ours = [("dedup-verdict", b"duplicate"), ("dedup-evidence", b"{}")], [("dedup-verdict", b"unique")]
    >>> [was_held_back(SimpleNamespace(headers=one)) for one in (theirs, theirs + ours, ours + theirs)]
    [True, False, True]
    """
    for name, _ in reversed(record.headers):
        if name in (EVIDENCE, REASON):
            return True
        if name == VERDICT:
            return False
    return False
