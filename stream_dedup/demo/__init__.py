"""A Kafka of its own and a made-up feed: what `make run` and the tests need when there is no cluster at hand."""
