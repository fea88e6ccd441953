"""Authenticate changelog records by a keyed hash, so that only owners of the key can add or change one.

In: the keys, and a record's fields. Out: a header with the HMAC-SHA-256 of topic, partition, key, headers and value.
A program that may write to the topic but lacks the key cannot make a record that passes; so no verdict rests on an
original that no worker has seen. A copy of a genuine record passes in its own partition, where its sequence number is
known, and it is ignored. Removed records leave a gap in the numbers (reader.py).

Several keys allow a change of keys: the first one signs, all verify.
"""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from typing import Any

from stream_dedup.changelog.headers import Header
from stream_dedup.errors import CorruptBlock

HMAC_HEADER = "hmac"
_DOMAIN = b"stream-dedup changelog 1"  # the same key may be in use elsewhere
_CURE = (
    "if a member without the key wrote it, set [worker] changelog_accept_unauthenticated until it has expired; "
    "otherwise find out who else may write to this topic, and rebuild it with `stream-dedup migrate` under a new "
    "[topics] changelog"
)


class Authenticator:
    """Signs and verifies records with `keys`, of which the first one signs.

    `accept_unauthenticated`: accept records without a hash, which were written before there was a key. A record with a
    wrong hash is never accepted.
    """

    def __init__(self, keys: Sequence[str], *, accept_unauthenticated: bool = False) -> None:
        self._keys = [key.encode() for key in keys]
        self._accept_unauthenticated = accept_unauthenticated

    def header(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Iterable[Header]
    ) -> Header:
        """Return the header that authenticates a record with these fields."""
        return HMAC_HEADER, _hash(self._keys[0], topic, partition, key, value, headers)

    def check(self, record: Any) -> None:
        """Raise CorruptBlock for a record that no owner of a key wrote."""
        given = [value for name, value in record.headers if name == HMAC_HEADER]
        if not given:
            if self._accept_unauthenticated:
                return
            raise CorruptBlock(f"the block is not authenticated, and [worker] changelog_key demands it: {_CURE}")
        rest = [(name, value) for name, value in record.headers if name != HMAC_HEADER]
        fields = (record.topic, record.partition, record.key, record.value, rest)
        if len(given) != 1 or not any(hmac.compare_digest(given[0] or b"", _hash(key, *fields)) for key in self._keys):
            raise CorruptBlock(
                "the block's keyed hash does not fit: it was changed or forged after it was written, or written under "
                "another key than those of [worker] changelog_key; if the key was changed, add the former one as a "
                f"second line. Otherwise: {_CURE}"
            )


def is_authenticated(record: Any) -> bool:
    """Return whether the record has a keyed hash, right or wrong."""
    return any(name == HMAC_HEADER for name, _ in record.headers)


def _hash(
    secret: bytes, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Iterable[Header]
) -> bytes:
    """Hash the fields, each with its length, so that no byte can move from one to the next."""
    fields = [_DOMAIN, topic.encode(), str(partition).encode(), key or b""]
    fields += [part for name, content in headers for part in (name.encode("utf-8", "surrogatepass"), content or b"")]
    digest = hmac.new(secret, digestmod=hashlib.sha256)
    for field in [*fields, value or b""]:
        digest.update(len(field).to_bytes(8, "little"))
        digest.update(field)
    return digest.digest()
