"""Compare split mode with one worker on a corpus: `python -m tests.split.compare CORPUS.jsonl.gz [--items N]`.

Two members of each role on an embedded Kafka, one partition, so that the order of the fingerprints is that of the file.
Every header that a record has got must be the same as from one worker of role `all` on the same records.
"""

import argparse
import gzip
import itertools
import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.settings import Settings
from tests.stream.support import Member, Outcome, feed, final_outcome, make_settings, ready, run_until

_ROLES = ("fingerprint", "judge", "publish")


def records(path: Path, most: int | None) -> list[tuple[bytes, bytes]]:
    """Key and value of each line."""
    with gzip.open(path, "rb") as lines:
        return [(f"{n}".encode(), line) for n, line in enumerate(itertools.islice(lines, most))]


def results(outcome: Outcome) -> dict[Any, Any]:
    """Key -> topic, value, and all headers but the place of the record, whose topic has another name."""
    every: dict[Any, Any] = {}
    for name in ("output", "duplicates", "dead_letters"):
        for record in getattr(outcome, name):
            assert record.key not in every, f"{record.key} came twice"
            headers = [(key, value) for key, value in record.headers if key != "dedup-source"]
            every[record.key] = name, record.value, record.timestamp, headers
    return every


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
        feed(split, items)
        run_until(one, len(items), 600)
        for role in (*_ROLES, *_ROLES):
            stack.enter_context(Member(split, {"role": role})).go()
        until = time.monotonic() + 600
        while sum((came := final_outcome(split, len(items))).fates.values()) < len(items):
            assert time.monotonic() < until, "split mode does not come to its end"
        expected, found = results(final_outcome(one, len(items))), results(came)
    differing = [key for key in expected if expected[key] != found.get(key)]
    print(json.dumps({"items": len(items), "published": len(found), "different": len(differing)}))
    assert not differing, [(expected[key], found.get(key)) for key in differing[:3]]


if __name__ == "__main__":
    main()
