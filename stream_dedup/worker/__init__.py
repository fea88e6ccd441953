"""The Kafka consumer: records in, verdicts out, each input accounted for exactly once."""
