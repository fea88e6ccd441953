"""Candidates -> Verdict. Pure: no I/O and no clock of its own."""
