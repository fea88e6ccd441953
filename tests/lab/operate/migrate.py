"""Migrate to another fingerprint scheme under load: 100,000 items, each judged once.

    python -m tests.lab.operate.migrate [--corpus FILE.jsonl.gz ...]

The items are made up; --corpus adds those of files. The former scheme judges half of them at full speed. Then
`Migration` starts, and the rest comes at 1,000 a second. The former member gets SIGTERM when the migration keeps up and
three quarters are sent. Its successor joins when the migration is done, as deploy/changes.md says.

The results go to tests/lab/results/operate.json: the records lost or repeated; the share of the new member's records
whose verdict and original are those of a run under the new scheme from the first item on; and the time from the former
member's stop to the new member's first commit.
"""

import argparse
import json
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice

from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import Settings
from stream_dedup.tools.inputs.lines import read_lines
from stream_dedup.tools.topics.migration import Migration, MigrationProgress
from stream_dedup.worker.outgoing import SCHEME
from tests.broker import EmbeddedKafka, prepare
from tests.harness.check import from_scratch, header, lost_and_repeated, outcome, read_all
from tests.harness.feed import Load, made_up
from tests.harness.member import Member
from tests.harness.topics import make_settings, ready, under_another_scheme, worked_off
from tests.harness.wait import LONG_PATIENCE
from tests.lab.measured import record

ITEMS = 100_000
RATE = 1000.0
_CAUGHT_UP = 2000  # records behind, at most
_AGREEMENT = 0.999


def items(corpus: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Keys and values; those of a corpus mixed with made-up ones, so that both come before and after the switch."""
    real = list(islice(_real(corpus), ITEMS))
    mixed = [*real, *made_up(ITEMS - len(real))]
    if real:
        random.Random(1).shuffle(mixed)
    return mixed


def _real(corpus: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
    for number, path in enumerate(corpus):
        for line in read_lines(path):
            # Two files may use the same ids.
            item = json.loads(line)
            name = f"{number}-{item['id']}"
            yield name.encode(), json.dumps({**item, "id": name}, ensure_ascii=False).encode()


def agreement(settings: Settings) -> tuple[int, float]:
    """The number of records judged under these settings, and the share with the verdict of a run from scratch."""
    scheme, came = f"{Scheme(settings.fingerprint).id:016x}", outcome(settings)
    records = [*came.output, *came.duplicates, *came.dead_letters]
    after = {record.key for record in records if header(record, SCHEME) == scheme}
    expected = from_scratch(settings, read_all(settings, settings.topics.input))
    verdicts = came.verdicts()
    return len(after), sum(verdicts[key] == expected[key] for key in after) / len(after)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures a migration under load.")
    parser.add_argument("--corpus", nargs="*", default=[], help="JSON Lines: id, title, text, source")
    corpus = parser.parse_args().corpus
    prepare()
    mixed = items(corpus)
    real = sum(not key.startswith(b"item-") for key, _ in mixed)
    with EmbeddedKafka() as kafka:
        old = ready(make_settings(kafka.bootstrap, str))
        new = under_another_scheme(old, "new-changelog")
        with Member(old) as former, Member(new) as successor:
            former.go()
            with Load(old, float("inf"), mixed[: ITEMS // 2]) as load:
                load.wait_until_sent()
            worked_off(old)
            print(f"{ITEMS // 2} judged under the former scheme", flush=True)
            stopped: list[float] = []
            with Load(old, RATE, mixed[ITEMS // 2 :]) as load:

                def report(progress: MigrationProgress) -> None:
                    is_caught_up = progress.total - progress.read < _CAUGHT_UP and progress.read > ITEMS // 4
                    if not stopped and is_caught_up and load.sent > ITEMS // 4:
                        stopped.append(time.time())
                        former.signal(signal.SIGTERM)

                moved = Migration(new, report).run()
                sent_at_switch = ITEMS // 2 + load.sent
                first = successor.go().wait_for("batch", LONG_PATIENCE)["at"]
                print(f"switched after {moved.read} of {sent_at_switch} sent", flush=True)
                load.wait_until_sent()
            worked_off(new)
        lost, repeated = lost_and_repeated(new)
        after, share = agreement(new)
    results = {
        "migration_items": ITEMS,
        "migration_real_items": real,
        "migration_items_s": round(RATE),
        "migration_lost": len(lost),
        "migration_repeated": len(repeated),
        "migration_judged_after": after,
        "migration_agreement": round(share, 5),
        "migration_pause_s": round(first - stopped[0], 2),
    }
    print(results)
    record("operate", results)
    sys.exit(1 if lost or repeated or share < _AGREEMENT else 0)


if __name__ == "__main__":
    main()
