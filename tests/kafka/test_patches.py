"""What each patch of kafka-python relies on. kafka-python promises none of it: with a new version these fail first.

That the patches do the right thing is tested elsewhere: test_bulk_producer.py and test_fast_fetch.py against the
client's own code, test_login_errors.py, and on a real Kafka test_polling.py, test_live_reader.py, test_broker.py.
"""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.consumer.fetcher import Fetcher
from kafka.coordinator.base import BaseCoordinator
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.producer.producer_batch import FinalState, ProducerBatch
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from stream_dedup.kafka import patches
from stream_dedup.kafka.record_batch import HEADER_BYTES, RECORD_OVERHEAD


def parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def source(thing: Any) -> str:
    return inspect.getsource(thing)


def test_the_patches_are_made_for_the_installed_version() -> None:
    assert kafka.__version__ == patches.VERSION


ANOTHER = """
import kafka
kafka.__version__ = "3.0.13"
import stream_dedup.cli.main
stream_dedup.cli.main.main()
"""


def test_another_version_is_refused_at_the_start_and_the_message_names_the_one_that_fits() -> None:
    ended = subprocess.run([sys.executable, "-c", ANOTHER, "run"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "kafka-python 3.0.13 is installed" in ended.stderr
    assert f"install kafka-python=={patches.VERSION}" in ended.stderr


def test_bulk_producer_finds_the_accumulator() -> None:
    accumulator = RecordAccumulator(batch_size=1000, compression_attrs=3)
    assert (accumulator.config["batch_size"], accumulator.config["compression_attrs"]) == (1000, 3)
    place = TopicPartition("t", 0)
    with accumulator._tp_lock(place):
        assert list(accumulator._batches[place]) == []
    assert accumulator._closed is False
    assert parameters(accumulator._incomplete.add) == ["batch"]
    assert parameters(TransactionManager.maybe_add_partition_to_transaction) == ["self", "topic_partition"]
    assert parameters(Sender.wakeup) == ["self"]
    made = source(KafkaProducer.__init__)
    for name in ("self._accumulator = ", "self._transaction_manager = ", "self._sender = "):
        assert name in made
    # What `send` does to a transaction, and in this order.
    sent = source(KafkaProducer.send)
    assert sent.index("maybe_add_partition_to_transaction(tp)") < sent.index("self._accumulator.append(")


def test_bulk_producer_finds_the_builders_and_the_batch() -> None:
    assert DefaultRecordBatchBuilder.HEADER_STRUCT.size == HEADER_BYTES
    assert DefaultRecordBatchBuilder.MAX_RECORD_OVERHEAD == RECORD_OVERHEAD
    builder = DefaultRecordBatchBuilder(2, 3, False, -1, -1, -1, 1000)
    fields = (builder._num_records, builder._last_offset, builder._first_timestamp, builder._max_timestamp)
    assert fields == (0, 0, None, None)
    assert len(builder._buffer) == HEADER_BYTES
    assert "self._maybe_compress()" in source(DefaultRecordBatchBuilder.build)
    memory = MemoryRecordsBuilder(2, 3, 1000)
    assert memory._next_offset == 0
    assert isinstance(memory._builder, DefaultRecordBatchBuilder)
    assert parameters(ProducerBatch) == ["tp", "records", "now"]
    batch = ProducerBatch(TopicPartition("t", 0), memory)
    assert (batch.final_state, batch.produce_future.is_done) == (None, False)
    batch.complete(17, -1)
    assert (batch.final_state, batch.produce_future.value) == (FinalState.SUCCEEDED, (17, -1, None))


def test_fast_fetch_finds_what_it_replaces() -> None:
    assert "self.PartitionRecords(" in source(Fetcher), "the fetcher takes the class from itself"
    assert "self._fetcher = " in source(KafkaConsumer.__init__)
    assert parameters(Fetcher._append) == ["self", "drained", "part", "max_records", "update_offsets"]
    assert "part.take(max_records)" in source(Fetcher._append)
    drain = source(Fetcher.fetched_records)
    assert "while records_remaining > 0" in drain
    assert "drained = collections.defaultdict(list)" in drain, "each poll begins with an empty one"
    assert re.search(r"records_remaining -= self\._append\(drained,", drain)
    records = Fetcher.PartitionRecords
    assert parameters(records._unpack_records) == ["self", "tp", "records", "key_deserializer", "value_deserializer"]
    assert "self._unpack_records(tp, records" in source(records.__init__)
    assert "self._next_inline_exception = e" in source(records.take)
    for name in ("next_fetch_offset", "leader_epoch", "isolation_level", "aborted_producer_ids", "record_iterator"):
        assert f"self.{name} = " in source(records.__init__)
    assert parameters(records._consume_aborted_transactions_up_to) == ["self", "offset"]
    assert parameters(records._is_batch_aborted) == ["self", "batch"]
    for name in ("base_offset", "first_timestamp", "max_timestamp", "records_count", "compression_type", "next_offset"):
        assert isinstance(getattr(DefaultRecordBatch, name), property), name
    assert "self._buffer = " in source(DefaultRecordBatch.__init__)


def test_paused_fetches_finds_what_is_parked_and_the_fault_is_still_there() -> None:
    made = source(Fetcher.__init__)
    assert "self._paused_completed_fetches = {}" in made
    assert "self._paused_partition_records = {}" in made
    assert "if self._next_partition_records is None:" in source(Fetcher.fetched_records)


def test_rejoin_finds_the_coordinator() -> None:
    assert "self._coordinator = " in source(KafkaConsumer.__init__)
    assert "self.rejoin_needed = True" in source(BaseCoordinator.request_rejoin)


def test_login_errors_finds_connections_and_transports() -> None:
    for kind in (KafkaConsumer, KafkaProducer, KafkaAdminClient):
        assert kind.DEFAULT_CONFIG["kafka_client"] is KafkaNetClient
    assert {"net", "manager"} <= set(parameters(KafkaNetClient))
    assert "slow_task_threshold_secs" in NetworkSelector.DEFAULT_CONFIG
    for name in ("_connect", "_build_transport"):
        assert inspect.iscoroutinefunction(getattr(KafkaConnectionManager, name)), name
    assert parameters(KafkaConnectionManager._connect)[:3] == ["self", "node", "conn"]
    assert "self._auth_failures" in source(KafkaConnectionManager)
    assert "self._sock_recv()" in source(KafkaTCPTransport)
    assert parameters(KafkaSSLTransport)[:4] == ["net", "sock", "host", "configs"]
    assert parameters(KafkaConnectionManager._build_transport) == ["self", "node", "timeout_at"]
    assert {"node", "timeout_at", "socket_options", "proxy_url"} <= set(
        re.findall(r"\w+", source(KafkaConnectionManager._build_transport))
    )


def test_force_close_finds_the_sender_and_the_fault_is_still_there() -> None:
    assert parameters(Sender.force_close) == ["self"]
    closing = source(KafkaProducer.close)
    assert closing.index("self.flush(timeout)") < closing.index("self._sender.force_close()")
