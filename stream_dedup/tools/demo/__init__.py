"""The demo: an embedded Kafka, a made-up feed and a live screen, for `make run`; the tests use the first two."""
