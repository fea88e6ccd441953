"""The decision, without I/O: deduplicator.py remembers and is called, decide.py decides a batch, rule.py a pair."""
