"""Quix Streams with exactly-once and datasketch's MinHashLSH(128): what a Python team would put together.

    quix_datasketch.py BOOTSTRAP INPUT OUTPUT GROUP COUNT STATE_DIRECTORY -> {"seconds", "items", "held_back"}

The index lies in memory and would be lost at a restart: a favour to this peer. The clock runs from the 1,000th
processed item, when the first transaction ends, to the last one; the last commit is not counted, another favour.
"""

import json
import re
import sys
import time

from datasketch import MinHash, MinHashLSH
from quixstreams import Application

BATCH = 1000  # items a transaction, as the worker has
_WORD = re.compile(r"\w+")


def main(bootstrap: str, source: str, target: str, group: str, count: int, state: str) -> None:
    lsh = MinHashLSH(threshold=0.8, num_perm=128)
    done = held = 0
    start = end = 0.0

    def is_new(value: bytes) -> bool:
        nonlocal held
        item = json.loads(value)
        words = _WORD.findall(f"{item.get('title', '')} {item.get('text', '')}".lower())
        sketch = MinHash(num_perm=128)
        sketch.update_batch([" ".join(words[i : i + 3]).encode() for i in range(max(1, len(words) - 2))])
        if lsh.query(sketch):
            held += 1
            return False
        lsh.insert(done, sketch, check_duplication=False)
        return True

    def processed(topic: str, partition: int, offset: int) -> None:
        nonlocal done, start, end
        done += 1
        end = time.perf_counter()
        if done == BATCH:
            start = end
        if done >= count:
            app.stop()

    app = Application(
        bootstrap,
        consumer_group=group,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_every=BATCH,
        commit_interval=5.0,
        producer_extra_config={"compression.type": "lz4", "linger.ms": 5},
        on_message_processed=processed,
        auto_create_topics=False,
        state_dir=state,
        loglevel="WARNING",
    )
    stream = app.dataframe(app.topic(source, value_deserializer="bytes"))
    stream.filter(is_new).to_topic(app.topic(target, value_serializer="bytes"))
    app.run()
    sys.stdout.write(json.dumps({"seconds": end - start, "items": done - BATCH, "held_back": held}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]), sys.argv[6])
