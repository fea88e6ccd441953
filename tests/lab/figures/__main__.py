"""Measure the figures of the pages and write them to tests/lab/results/figures.json.

make figures CORPORA=DIR                            # everything, some four minutes; then renews the pages
make figures CORPORA=DIR ARGS="--only families"     # one section; the others keep their figures
"""

import argparse
import os
import sys
import time
from pathlib import Path

from stream_dedup.errors import StreamDedupError
from stream_dedup.settings import PREFIX
from tests.lab.figures.measure import SECTIONS, Corpora, measured
from tests.lab.figures.results import save


def main() -> None:
    """Measure quality and agreement on real corpora, which are not part of the project."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.figures", description=main.__doc__)
    parser.add_argument("corpora", metavar="DIR", type=Path, help="corpora (NAME.jsonl.gz) and labels")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="a section; may be repeated")
    given = parser.parse_args()
    if set_here := sorted(name for name in os.environ if name.upper().startswith(PREFIX)):
        parser.error(f"figures need the default settings; unset {', '.join(set_here)}")
    source = Corpora(given.corpora, lambda what: print(f"  {what}", file=sys.stderr))
    for name in given.only or SECTIONS:
        start = time.perf_counter()
        try:
            save({name: measured(source, name)})  # at once, so that a later one that fails costs nothing
        except StreamDedupError as error:
            sys.exit(f"{name}: {error}")
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
