"""Make everything in the repository that is generated: `make reference`, or `python -m docs.build`.

    config/reference.md, config/metrics.md    every setting and metric, from their classes and descriptions
    deploy/grafana/dashboards                 the dashboard, from deploy/grafana/build.py
    stream_dedup/scheme.txt                   the id of the default fingerprints, for `--version`
    the version, in deploy/                   from pyproject.toml
    deploy/kubernetes/monitoring/rules        the same and the alerts as objects, from deploy/prometheus/build.py
    parts of the pages                        between `<!-- made by docs/build.py: NAME -->` and `<!-- end -->`

The tables come from the results of `make bench` and `make figures` (tests/lab/benchmarks/results,
tests/lab/results/figures.json) and from the code itself: the model of `plan`, the layout of a signature. So no figure
is copied by hand, and none goes stale: tests/test_pages.py compares every file with what this makes.

The picture docs/demo.svg is a run of `stream-dedup demo` on the embedded Kafka: `python -m docs.build --picture`.
`--notes` prints the notes of a release.
"""

import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from deploy.grafana import build as grafana
from deploy.prometheus import build as prometheus
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import MEMORY_SLACK, footprint
from stream_dedup.settings import FingerprintSettings, load_settings
from stream_dedup.settings.memory import BATCHES, BUSY_BYTES, COPIES
from stream_dedup.tools.reference import metrics_reference, reference
from tests.fuzz import families
from tests.lab.benchmarks import results as benchmarks
from tests.lab.figures import edits, results, tables

ROOT = Path(__file__).parents[1]
PROCESS_BYTES = 200 * 2**20
"""The memory of a worker without originals and without work (deploy/sizing.md)."""
PICTURE = ROOT / "docs" / "demo.svg"
RESULTS = ROOT / "tests" / "lab" / "benchmarks" / "results"
SPARK = ROOT / "tests" / "lab" / "results" / "spark.json"
BEFORE = SPARK.with_name("languages_before.json")  # the same reports through an earlier commit
HOSTILE = ROOT / "tests" / "lab" / "results" / "hostile.json"
# The 100 columns of the terminal fill the width of a README; the lines that stay show counts, verdicts and the result.
COLUMNS = 100
# Files that name the version, and how they do.
VERSIONED = ("deploy/README.md", "deploy/Dockerfile", "deploy/compose.yaml", "deploy/kubernetes/kustomization.yaml")
_VERSION = re.compile(
    r"(\bstream-dedup:|^ARG VERSION=|\bnewTag: |`VERSION`, `REVISION`, `SCHEME` \| `)\d+\.\d+\.\w+", re.M
)
_TABLE = re.compile(r"(<!-- made by docs/build\.py: ([\w ]+) -->\n)(.*?)(<!-- end -->)", re.S)
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


def latest_benchmarks() -> dict[str, benchmarks.Section]:
    """The sections of the machine that was measured last."""
    machines = [benchmarks.load(path).sections for path in sorted(RESULTS.glob("*.json"))]
    return max(machines, key=lambda sections: max(section.date for section in sections.values()))


def made_tables() -> dict[str, dict[str, Callable[[], str]]]:
    """The tables by page and name."""
    found, measured = results.load(), latest_benchmarks()
    spark, before = (json.loads(path.read_text("utf-8")) for path in (SPARK, BEFORE))
    return {
        "README.md": {
            "quality": lambda: edits.quality(found["readers"].figures["languages"], found["edits"].figures["balanced"]),
            "speeds": lambda: speeds(measured),
        },
        "CONTRIBUTING.md": {"layers": layers},
        "CHANGELOG.md": {"scheme": lambda: f"Scheme: `{scheme()}` ([what it says](deploy/changes.md#upgrade))"},
        "docs/decision.md": {
            "names": lambda: edits.names(found["readers"].figures["cross-validated"], found["edits"].figures),
        },
        "docs/quality.md": {
            "readers": lambda: tables.readers(found["readers"]),
            "edits": lambda: edits.by_name(found["edits"].figures),
        },
        "docs/languages.md": {
            "edits by language": lambda: edits.by_language(found["edits"].figures["balanced"]),
            "reports": lambda: tables.languages(found["languages"], before),
        },
        "docs/fingerprints.md": {
            "families": lambda: tables.families(found["families"]),
            "proposed": lambda: tables.proposed(found["families"]),
            "short": lambda: tables.short(found["short"]),
            "exactness": lambda: tables.exactness(found["exactness"]),
        },
        "docs/benchmarks.md": {"clients": lambda: clients(measured["worker"].figures)},
        "docs/testing.md": {"hostile": hostile},
        "docs/spark.md": {"spark": lambda: tables.spark(spark)},
        "deploy/sizing.md": {"sizing": tables.sizing, "original": original, "memory": memory},
    }


def made() -> dict[str, str]:
    """Every generated file as it should be, by path. Raises ValueError if a page lacks a table or has another."""
    files = {
        "config/reference.md": reference(),
        "config/metrics.md": metrics_reference(),
        grafana.TARGET: grafana.as_text(),
        "stream_dedup/scheme.txt": f"{scheme()}\n",
        **prometheus.files(),
    }
    for path, made in made_tables().items():
        text = (ROOT / path).read_text("utf-8")
        if (names := [name for _, name, *_ in _TABLE.findall(text)]) != list(made):
            raise ValueError(f"{path} has places for the tables {names}, made are {list(made)}")
        files[path] = _TABLE.sub(lambda match, made=made: f"{match[1]}{made[match[2]]()}\n{match[4]}", text)
    for path in VERSIONED:
        files[path] = _VERSION.sub(rf"\g<1>{version()}", (ROOT / path).read_text("utf-8"))
    return files


def version() -> str:
    """The version of the project; this is its only place that people change."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def scheme() -> str:
    """The id of the default fingerprints. State survives a release with the same one."""
    return f"{Scheme(FingerprintSettings()).id:016x}"


def notes() -> str:
    """The notes of a release: its version and scheme, and the first section of the changelog."""
    _, section, *_ = (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")
    section = re.sub(r"<!-- .*? -->\n", "", section.strip())
    return f"# stream_dedup {version()}\n\n## {section}\n"


def layers() -> str:
    """The layers of the packages, from the highest on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    names = [name.partition(".")[2] for name in project["tool"]["importlinter"]["contracts"][0]["layers"]]
    return "\n".join(textwrap.wrap(" → ".join(f"`{name}`" for name in names), 120))


def original() -> str:
    """The table of what one original takes, with the default keys: one figure, as `plan` reckons."""
    takes = footprint(Scheme(load_settings().fingerprint), tables.ORIGINALS)
    keys = takes.keys * takes.key_bytes
    rest = takes.bytes_per_item - takes.record_bytes - keys - takes.id_bytes
    rows = [
        ["signature", f"{takes.record_bytes}"],
        [f"{takes.keys} keys", f"{keys:.0f}"],
        ["id", f"{takes.id_bytes:.0f}"],
        ["bookkeeping", f"{rest:.0f}"],
        ["the allocator", f"{takes.bytes_per_item * (MEMORY_SLACK - 1):.0f}"],
        ["**an original**", f"**{takes.bytes_per_item * MEMORY_SLACK:.0f}**"],
    ]
    return tables.table(["part", "bytes"], rows)


def memory() -> str:
    """The table of what `[worker] memory` is for, besides originals."""
    rows = [
        ["an idle process", tables.mib(PROCESS_BYTES)],
        ["a busy process: arenas, buffers of the client", tables.mib(BUSY_BYTES)],
        ["batches: those on their way, of the transaction that is committed and of the next", f"{BATCHES} × a batch"],
        ["records", f"{COPIES} × the largest record"],
    ]
    return tables.table(["for", "memory"], rows)


def hostile() -> str:
    """The table of what hostile families cost."""
    counts = json.loads(HOSTILE.read_text("utf-8"))
    rows = (
        [
            *(family, f"{sum(phase[-1] for phase in phases.values()) / 1e6:,.0f} M"),
            *(f"{families.growth(phases[name]):.2f}" for name in families.PHASES),
        ]
        for family, phases in ((name, counts[name]) for name in families.FAMILIES)
    )
    return tables.table(["family", "instructions at 8 times", *families.PHASES], rows)


def speeds(measured: dict[str, benchmarks.Section]) -> str:
    """The table of ratios, as Markdown."""
    figures = {name: value for section in measured.values() for name, value in section.figures.items()}
    rows = ([what, peer, _rounded(figures[name])] for name, what, peer in ROWS)
    return tables.table(["measured", "compared with", "times as fast"], rows)


def clients(figures: dict[str, float]) -> str:
    """The table of the worker beside bare loops of two clients, as Markdown."""
    loops = {"ours": "the worker", "passthrough": "bare loop, kafka-python", "confluent": "bare loop, confluent-kafka"}
    rows = (
        [
            loop,
            *(f"{figures[f'worker_items_per_second_{name}_{texts}']:,.0f}" for texts in ("news", "unique")),
            *(f"{figures[f'worker_cpu_us_{name}_{texts}']:.0f}" for texts in ("news", "unique")),
        ]
        for name, loop in loops.items()
    )
    heads = ["", "items a second, news", "unique items", "µs of processor an item, news", "unique items"]
    return tables.table(heads, rows)


def _rounded(ratio: float) -> str:
    # Two digits: the spread of the runs is larger than the third.
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


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
    if "--notes" in sys.argv[1:]:
        print(notes(), end="")
        sys.exit()
    for path, text in made().items():
        if (ROOT / path).read_text("utf-8") != text:
            (ROOT / path).write_text(text, "utf-8")
            print("written:", path)
    if "--picture" in sys.argv[1:]:
        PICTURE.write_text(picture(run_demo()), "utf-8")
