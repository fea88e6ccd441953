"""The decision, without I/O. deduplicator.py: memory and calls; decide.py: a batch, item by item; rule.py: a pair."""
