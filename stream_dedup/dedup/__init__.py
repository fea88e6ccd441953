"""The decision: candidates, similarities, the rule, verdicts. Pure: no I/O and no clock of its own."""
