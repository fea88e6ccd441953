"""Everything that speaks to Kafka: client, producer, members of the group, topics.

No other package imports kafka-python.
"""
