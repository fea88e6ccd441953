"""Figures of quality, agreement and size in the pages: what measures, keeps, judges and renders them.

`python -m tests.figures DIR` (`make figures CORPORA=DIR`) measures on corpora that are not part of the project and
writes `tests/results/figures.json`; `docs/build.py` renders tables and sentences of pages from it and from the code.
"""
