"""Everything that reaches into kafka-python's private parts.

kafka-python promises none of what is used here, so pyproject.toml pins its version exactly, this package refuses
another one when it is imported, and tests/stream/test_client_internals.py names what each patch relies on.

================  ==============================  ==================================================================
module            what it does                    reaches into
================  ==============================  ==================================================================
bulk_producer.py  hands whole record batches to   producer: `_accumulator`, `_transaction_manager`, `_sender`;
                  the producer                    `ProducerBatch`, the builders' fields
fast_fetch.py     unpacks fetched records,        consumer: `_fetcher`, its `PartitionRecords` and `_append`; the
                  bounds a poll by bytes          fields of `DefaultRecordBatch`; `codec`
                  (decompress.py)
login_errors.py   reports a refused login or      `kafka.net`: connections, transports, selector
                  certificate at once
patches.py        resumes a paused partition,     consumer: `_fetcher`, `_coordinator`; producer: `_sender`
                  goes on with a rebalance,
                  stops a producer at once
================  ==============================  ==================================================================

The first two are there for speed. Without bulk_producer.py production cost 3.6 times the processor time, the whole
worker 1.4 times (short made-up articles). Without fast_fetch.py consumption cost 1.9 times as much, the whole worker
1.07 times. That alone would not be worth a patch; it stays because only with it a header whose name is not UTF-8 does
not stop the worker, and a batch that unpacks to gigabytes does not kill it.

The others are there for correctness, not for speed: each says what goes wrong without it.
"""

import kafka

from stream_dedup.errors import ConfigError

VERSION = "3.0.12"


def check_version() -> None:
    """Raise ConfigError if another version of kafka-python is installed, where the internals may be elsewhere."""
    if kafka.__version__ != VERSION:
        raise ConfigError(
            f"kafka-python {kafka.__version__} is installed, and the worker needs {VERSION} exactly: "
            f"install kafka-python=={VERSION}"
        )


check_version()
