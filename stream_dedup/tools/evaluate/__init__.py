"""Measure how good the decision is: the code of the stream, compared with exact sets and with labels of people."""
