"""Everything that speaks to Kafka: client, producer, readers of partitions, topics. Alone imports kafka-python."""
