"""Build the generated parts of the README: the table of speeds, and the picture of `make run`.

The table comes from tests/benchmarks/results, which `make bench` writes, and goes between two comments in README.md.
The picture docs/demo.svg comes from a run of `stream-dedup demo`. So no figure is copied by hand and none goes stale.

    python docs/build.py             # the table, as part of `make reference`
    python docs/build.py --picture   # the picture too: runs the demo on the embedded Kafka
"""

import json
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "demo.svg"
RESULTS = ROOT / "tests" / "benchmarks" / "results"
# The 100 columns of the terminal fill the width of a README; the lines that stay show counts, verdicts and the result.
COLUMNS = 100
BEGIN, END = "<!-- made by docs/build.py -->", "<!-- end -->"
ROWS = (
    ("engine_vs_datasketch", "text to verdict, one thread", "datasketch's MinHashLSH"),
    ("engine_vs_gaoya", "text to verdict, one thread", "gaoya's MinHash index"),
    ("worker_vs_quix_datasketch", "the whole worker on Kafka", "Quix Streams with datasketch"),
    (
        "worker_vs_passthrough_news",
        "the whole worker on Kafka",
        "a bare exactly-once loop of kafka-python",
    ),
    ("pairs_vs_text_dedup", "all pairs of a corpus", "text-dedup's MinHash"),
)
_CONTROL = re.compile(r"\x1b\[\??\d*[A-KSThl]|\r")  # moves of the cursor; colours stay
# rich's own frame draws a window and loads a font from the network; a picture in a repository needs neither.
_SVG = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>{styles}
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px }}
</style>
<defs>{lines}</defs>
<rect fill="#0c0c0c" width="100%" height="100%" rx="8"/>
<g transform="translate(10, 8)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def latest_figures() -> dict[str, float]:
    """All figures of the machine that was measured last."""
    machines = [json.loads(path.read_text("utf-8"))["sections"].values() for path in sorted(RESULTS.glob("*.json"))]
    sections = max(machines, key=lambda sections: max(section["date"] for section in sections))
    return {name: value for section in sections for name, value in section["figures"].items()}


def table(figures: dict[str, float]) -> str:
    """The table of ratios, as Markdown."""
    rows = (f"| {what} | {peer} | {_rounded(figures[name])} |" for name, what, peer in ROWS)
    return "\n".join(("| measured | compared with | times as fast |", "| --- | --- | --- |", *rows))


def _rounded(ratio: float) -> str:
    # Two digits: the spread of the runs is larger than the third.
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def with_table(readme: str, figures: dict[str, float]) -> str:
    """The README with the table as it should be."""
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n{table(figures)}\n{END}{rest.split(END)[1]}"


def picture(shown: str) -> str:
    """What a terminal shows, with its colours -> SVG."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    for line in _CONTROL.sub("", shown).splitlines():
        console.print(Text.from_ansi(line), no_wrap=True, crop=True)
    return console.export_svg(code_format=_SVG, unique_id="demo")


def run_demo() -> str:
    """The output of `make run` behind a pipe, in colour."""
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    made = subprocess.run(
        [sys.executable, "-m", "stream_dedup", "demo", "--once"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout[made.stdout.index("stream-dedup demo on") :]


if __name__ == "__main__":
    README.write_text(with_table(README.read_text("utf-8"), latest_figures()), "utf-8")
    if "--picture" in sys.argv[1:]:
        PICTURE.write_text(picture(run_demo()), "utf-8")
