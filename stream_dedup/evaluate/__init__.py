"""How good is the decision? The same code as in the stream, against exact sets and against readers."""
