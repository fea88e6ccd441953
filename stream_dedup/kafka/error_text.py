"""Describe an error of the Kafka client in one line for a person.

In: an exception of kafka-python, or of what it calls. Out: its name, its Kafka protocol number and its text, each once.
The client repeats them: it puts the name into the text, and wraps errors in errors of the same name, as in
"[Error 87] InvalidRecordError: [Error 87] InvalidRecordError: ...".
"""

import re

from kafka import errors as kafka_errors

_NUMBER = r"(\[Error -?\d+\] )?"


def error_text(error: BaseException) -> str:
    """Name, number and text of the error in one line.

    >>> error_text(kafka_errors.InvalidRecordError("Timestamp is out of range"))
    'InvalidRecordError (Kafka error 87): Timestamp is out of range'
    >>> error_text(kafka_errors.UnknownError())
    'UnknownError (Kafka error -1): An unexpected server error.'
    >>> error_text(kafka_errors.InvalidProducerEpochError(None))
    'InvalidProducerEpochError (Kafka error 47): Producer attempted to produce with an old epoch.'
    >>> error_text(kafka_errors.KafkaConnectionError(ConnectionRefusedError(111, "Connection refused")))
    'KafkaConnectionError: Connection refused'
    """
    name, text = type(error).__name__, _text(error)
    if isinstance(error, OSError) and not isinstance(error, kafka_errors.KafkaError):
        return error.strerror or text or name
    number = ""
    if isinstance(error, kafka_errors.BrokerResponseError):
        number = f" (Kafka error {error.errno})"
        text = text or error.description or ""
    text = re.sub(rf"^({_NUMBER}{re.escape(name)}(: |$))+", "", text)
    if text.startswith(f"{name}{number}"):  # an error wrapped in one of the same name
        return text
    return f"{name}{number}: {text}" if text else name + number


def _text(error: BaseException) -> str:
    if isinstance(error, kafka_errors.KafkaError):
        shown = [arg for arg in error.args if arg is not None]  # the client passes a broker's missing text on
        return ", ".join(error_text(arg) if isinstance(arg, BaseException) else str(arg) for arg in shown)
    return str(error)
