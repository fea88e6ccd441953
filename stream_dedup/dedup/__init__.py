"""The decision, without I/O: decider.py remembers and is called, decide.py decides a batch, rule.py a pair."""
