"""Deduplicate a topic with Quix Streams (exactly-once) and datasketch's MinHashLSH(128), as a Python team would.

    quix_datasketch.py BOOTSTRAP INPUT OUTPUT GROUP COUNT STATE_DIRECTORY -> {"seconds", "items", "held_back"}

Two choices favour this peer: its index is in memory and would be lost at a restart, and the last commit is not counted.
The clock runs from the 1,000th processed item, when the first transaction ends, to the last item.
"""

import json
import re
import sys
import time

from datasketch import MinHash, MinHashLSH
from quixstreams import Application

BATCH = 1000  # items a transaction, as in the worker
_WORD = re.compile(r"\w+")


def main(bootstrap: str, source: str, target: str, group: str, count: int, state: str) -> None:
    lsh = MinHashLSH(threshold=0.8, num_perm=128)
    processed_count = held_back = 0
    start = end = 0.0

    def is_new(value: bytes) -> bool:
        nonlocal held_back
        item = json.loads(value)
        words = _WORD.findall(f"{item.get('title', '')} {item.get('text', '')}".lower())
        sketch = MinHash(num_perm=128)
        sketch.update_batch([" ".join(words[i : i + 3]).encode() for i in range(max(1, len(words) - 2))])
        if lsh.query(sketch):
            held_back += 1
            return False
        lsh.insert(processed_count, sketch, check_duplication=False)
        return True

    def processed(topic: str, partition: int, offset: int) -> None:
        nonlocal processed_count, start, end
        processed_count += 1
        end = time.perf_counter()
        if processed_count == BATCH:
            start = end
        if processed_count >= count:
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
    sys.stdout.write(
        json.dumps({"seconds": end - start, "items": processed_count - BATCH, "held_back": held_back}) + "\n"
    )


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]), sys.argv[6])
