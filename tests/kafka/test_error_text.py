"""Our messages name each error of the client once."""

import pytest
from kafka import errors as kafka_errors

from stream_dedup.kafka.errors import error_text, translate


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (kafka_errors.InvalidRecordError("too old"), "InvalidRecordError (Kafka error 87): too old"),
        (
            kafka_errors.InvalidRecordError("InvalidRecordError: InvalidRecordError: too old"),
            "InvalidRecordError (Kafka error 87): too old",
        ),
        (
            kafka_errors.InvalidRecordError(kafka_errors.InvalidRecordError("too old")),
            "InvalidRecordError (Kafka error 87): too old",
        ),
        (
            kafka_errors.InvalidRecordError("[Error 87] InvalidRecordError: too old"),
            "InvalidRecordError (Kafka error 87): too old",
        ),
        (
            kafka_errors.KafkaTimeoutError(kafka_errors.NotLeaderForPartitionError("moved")),
            "KafkaTimeoutError: NotLeaderForPartitionError (Kafka error 6): moved",
        ),
        (kafka_errors.KafkaTimeoutError(), "KafkaTimeoutError"),
        (kafka_errors.UnknownError(), "UnknownError (Kafka error -1): An unexpected server error."),
        (TimeoutError("in vain"), "in vain"),
        (ValueError("no such partition"), "ValueError: no such partition"),
    ],
    ids=lambda one: one if isinstance(one, str) else repr(one),
)
def test_an_error_is_named_once(error: Exception, expected: str) -> None:
    assert error_text(error) == expected


def test_our_error_names_the_client_s_error_once() -> None:
    ours = str(translate(kafka_errors.InvalidRecordError("too old"), "sending"))
    assert ours == "sending: InvalidRecordError (Kafka error 87): too old"
