"""Everything that speaks to Kafka: client, producer, readers of partitions, topics.

No other package imports kafka-python.
"""
