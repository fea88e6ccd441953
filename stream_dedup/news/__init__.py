"""Decode records: the bytes of a Kafka record or of a line become an `Item`."""
