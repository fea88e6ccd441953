"""Compare split mode with one worker on a corpus: `python -m tests.split.compare CORPUS.jsonl.gz [--items N]`.

Two members of each role on an embedded Kafka, one partition, so that the order of the fingerprints is that of the file.
The verdicts, evidence included, must be those of a `Deduplicator` that judges the same batches. It also prints how many
differ from a worker of role `all`: its batches have other bounds, and an item is not compared with passages that became
known as boilerplate in its own batch.
"""

import argparse
import gzip
import itertools
import json
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import Settings
from tests.stream.support import (
    Member,
    Outcome,
    Sent,
    feed,
    final_outcome,
    header,
    make_settings,
    ready,
    run_until,
)

_ROLES = ("fingerprint", "judge", "publish")
Verdicts = dict[Any, tuple[str, str | None, Any]]  # key -> verdict, id of the original, evidence


def records(path: Path, most: int | None) -> list[tuple[bytes, bytes]]:
    """Key and value of each line."""
    with gzip.open(path, "rb") as lines:
        return [(f"{n}".encode(), line) for n, line in enumerate(itertools.islice(lines, most))]


def published(outcome: Outcome) -> Verdicts:
    """The verdicts in the headers of what was written."""
    found: Verdicts = {}
    for record in [*outcome.output, *outcome.duplicates, *outcome.dead_letters]:
        assert record.key not in found, f"{record.key} came twice"
        evidence = json.loads(header(record, "dedup-evidence") or "null")
        found[record.key] = header(record, "dedup-verdict") or "", header(record, "dedup-original"), evidence
    return found


def judged(settings: Settings, sent: list[Sent], sizes: Iterable[int]) -> Verdicts:
    """The verdicts of batches of these sizes."""
    dedup, decode, first = Deduplicator(settings), Decoder(settings.item), 0
    found: Verdicts = {}
    for size in sizes:
        some = sent[first : first + size]
        batch = dedup.judge([decode(one.value, one.key, one.timestamp, one.partition, one.offset) for one in some])
        dedup.apply(batch)
        for one, verdict in zip(some, batch.verdicts, strict=True):
            shows = verdict.original is not None and str(verdict.kind) != "unique"
            original = verdict.original.id if shows and verdict.original else None
            found[one.key] = str(verdict.kind), original, verdict.as_json() if shows else None
        first += size
    dedup.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--items", type=int)
    arguments = parser.parse_args()
    items = records(arguments.corpus, arguments.items)
    with EmbeddedKafka() as kafka, ExitStack() as stack:

        def make(name: str) -> Settings:
            return ready(make_settings(kafka.bootstrap, lambda topic: f"{name}-{topic}"), is_split=True)

        one, split = make("one"), make("split")
        feed(one, items)
        sent = feed(split, items)
        run_until(one, len(items), 600)
        members = [stack.enter_context(Member(split, {"role": role})).go() for role in (*_ROLES, *_ROLES)]
        until = time.monotonic() + 600
        while sum((came := final_outcome(split, len(items))).fates.values()) < len(items):
            assert time.monotonic() < until, "split mode does not come to its end"
        judges = [member for member, role in zip(members, (*_ROLES, *_ROLES), strict=True) if role == "judge"]
        sizes = [event["records"] for member in judges for event in member.drain() if event["event"] == "batch"]
        alone, found = published(final_outcome(one, len(items))), published(came)
    expected = judged(split, sent, sizes)
    differing = [key for key in expected if expected[key] != found.get(key)]
    from_one = [(alone[key], found[key]) for key in found if alone[key] != found[key]]
    figures = {
        "items": len(found),
        "batches": len(sizes),
        "different": len(differing),
        "evidence_unlike_one_worker": len(from_one),
        "verdict_unlike_one_worker": sum(first[:2] != second[:2] for first, second in from_one),
    }
    print(json.dumps(figures))
    assert not differing, [(expected[key], found.get(key)) for key in differing[:3]]


if __name__ == "__main__":
    main()
