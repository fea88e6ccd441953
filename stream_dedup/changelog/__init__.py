"""The changelog of the index: the format of its blocks, and its stores on Kafka and on disk."""
