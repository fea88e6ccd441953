"""Figures of quality, agreement and size in the pages: how they are measured, kept and rendered.

`python -m tests.lab.figures DIR` (`make figures CORPORA=DIR`) measures on corpora that are not part of the project and
writes `tests/lab/results/figures.json`; `docs/build.py` renders the tables of the pages from it and from the code.
"""
