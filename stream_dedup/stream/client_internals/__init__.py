"""Everything that reaches into kafka-python's private parts, one module for each patch.

kafka-python promises none of what is used here, so pyproject.toml pins its version exactly, `version.check_version`
refuses another one at the start, and tests/stream/test_client_internals.py names what each patch relies on. With
`[kafka] client = "public"` nothing of this package is imported, and the worker uses public calls alone
(stream_dedup/stream/client_access.py): slower, with the same results.

=================  ============================  ==================================  ==================================
module             what it does                  reaches into                        with public calls alone
=================  ============================  ==================================  ==================================
bulk_producer.py   hands whole record batches    producer: `_accumulator`,           `send` for each record. A refused
                   to the producer               `_transaction_manager`, `_sender`;  record is named less often; then
                                                 `ProducerBatch`, the builders'      it is searched for by halves. No
                                                 fields                              headers without a value, no
                                                                                     records without key and value
fast_fetch.py      unpacks fetched records,      consumer: `_fetcher`, its           the client's own records. A
                   bounds a poll by bytes        `PartitionRecords` and `_append`;   header whose name is not UTF-8
                   (decompress.py,               the fields of                       stops the worker. Nothing limits
                   message_sets.py)              `DefaultRecordBatch`; `codec`       what a batch unpacks to, and with
                                                                                     it the memory of a poll
paused_fetches.py  resumes a paused partition    consumer: `_fetcher`                each poll returns all that is
                                                                                     fetched, so nothing is parked
rejoin.py          keeps a rebalance from being  consumer: `_coordinator`            a rebalance that lasts for two
                   forgotten                                                         sessions is begun anew
login_errors.py    reports a refused login or    `kafka.net`: connections,           a wrong password is retried, and
                   certificate at once           transports, selector                named only in the report that no
                                                                                     broker answers; so is a wrong
                                                                                     certificate, and not if another
                                                                                     broker works; a failed handshake
                                                                                     leaves a socket open
force_close.py     stops a producer at once      producer: `_sender`                 a thread closes it when its
                                                                                     unsent records have expired
=================  ============================  ==================================  ==================================

The first two are there for speed. `make bench ARGS="--only client"` measures each with and without. Processor time an
item, on short made-up articles:

- bulk_producer.py: production costs 3.6 times as much without it, the whole worker 1.4 times.
- fast_fetch.py: consumption costs 1.9 times as much without it, the whole worker 1.07 times. That alone would not be
  worth a patch; it stays because only with it a header whose name is not UTF-8 does not stop the worker, and a batch
  that unpacks to gigabytes does not kill it.

The others are there for correctness, not for speed: each says in its module what goes wrong without it.
"""
