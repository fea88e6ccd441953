"""`python -m tests.core.verdicts`: digests of all that the core computes of a feed, the same on every machine.

Out: a line for each family of fingerprints, with the digest of signatures, keys, and verdicts with their evidence as it
is written; and a line for the pairs of the feed. A written probability has four digits: numpy computes its exponential
with instructions of the processor, and on aarch64 the last bit of 24 is another one.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from stream_dedup import Deduplicator, Item, find_pairs
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import load_settings
from stream_dedup.tools.demo.newsroom import sample_feed
from tests.fuzz.core import FAMILIES
from tests.fuzz.hostile import PIECES
from tests.fuzz.records import NOW

_FEED = 500
_BATCHES = (1, 7, 40, 200)


def items() -> Iterator[Item]:
    """A made-up feed in several languages, then hostile texts, each twice with a little more."""
    decode = Decoder(load_settings().item)
    for row in sample_feed(_FEED):
        if isinstance(item := decode(json.dumps(row).encode(), None, None), Item):
            yield item
    for n, (name, piece) in enumerate(PIECES.items()):
        for more in ("", " and more of it."):
            yield Item(f"{name}{more}", piece * 3, piece * 40 + more, "a.example", NOW + n)


def digest_of(family: str) -> str:
    """The digest of what judging `items` computes under one family."""
    digest, remaining, n = hashlib.sha256(), items(), 0
    with Deduplicator(load_settings(fingerprint=dict(FAMILIES[family]))) as dedup:
        while batch := list(islice(remaining, _BATCHES[n % len(_BATCHES)])):
            judged = dedup.judge(batch)
            digest.update(judged.delta.signatures.tobytes() + judged.delta.keys.tobytes())
            digest.update("".join(json.dumps(verdict.as_json()) for verdict in judged.verdicts).encode())
            dedup.apply(judged)
            n += 1
    return digest.hexdigest()


def digest_of_pairs() -> str:
    with tempfile.TemporaryDirectory() as name:
        feed, pairs, clusters = (Path(name, part) for part in ("feed.jsonl", "pairs.jsonl", "clusters.jsonl"))
        feed.write_text("".join(json.dumps(row) + "\n" for row in sample_feed(_FEED)), "utf-8")
        find_pairs([feed], pairs, clusters, settings=load_settings())
        return hashlib.sha256(pairs.read_bytes() + clusters.read_bytes()).hexdigest()


if __name__ == "__main__":
    for family in FAMILIES:
        print(family, digest_of(family))
    print("pairs", digest_of_pairs())
