"""Save the results of a benchmark run, merged with earlier results of the same machine, and show them.

`MACHINE.json` holds the newest figures of every section that was ever measured on a machine, with the date, kind and
package versions of the run that measured it. A run replaces only the sections that it measures; history is in git.
`MACHINE.md` shows the same to people. MACHINE is the processor and its cores.

A figure `NAME` with `NAME_low` and `NAME_high` is the median of the rounds and their spread.
"""

import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.lab.figures.tables import table

# The claims of the project, as ratios and bounds: figure, its meaning, ">=" or "<=", bound.
CLAIMS: tuple[tuple[str, str, str, float], ...] = (
    ("engine_vs_datasketch", "text to verdict, one thread: times as fast as datasketch's MinHashLSH", ">=", 25),
    ("engine_vs_gaoya", "the same against gaoya's MinHash index", ">=", 3),
    ("engine_flood_20", "one form, 20 of 300 words new in each: throughput, times that of news", ">=", 0.5),
    ("engine_flood_60", "the same, 60 words new", ">=", 0.5),
    ("engine_two_threads", "the same in two threads, times one", ">=", 1.7),
    ("fingerprint_mb_s_kernel_4k", "MB of UTF-8 a second and thread to fingerprints, texts of 4 KB", ">=", 250),
    ("lookup_us_simhash_10m", "µs a lookup of a SimHash (k = 3, exact) among 10 million", "<=", 2),
    ("lookup_us_minhash_10m", "µs a lookup of the default's keys among 10 million", "<=", 5),
    ("insert_us_minhash_10m", "µs an insert with its merges, up to 10 million", "<=", 15),
    ("pause_ms_p99_merge_minhash_10m", "ms a batch of 500 lookups during merges, 99th percentile", "<=", 20),
    ("bytes_per_original_default", "bytes of memory an original, all included", "<=", 640),
    ("bytes_per_original_compact", "the same for the compact SimHash profile", "<=", 160),
    ("worker_vs_passthrough_unique", "worker's share of the bare pass-through, nothing held back", ">=", 0.9),
    ("worker_vs_passthrough_news", "the same on the news, with copies", ">=", 1),
    ("worker_vs_quix_datasketch", "times as fast as Quix Streams with datasketch", ">=", 4),
    ("latency_p99_ms_100", "ms from produced to readable at 100 items a second, 99th percentile", "<=", 60),
    ("latency_p99_ms_1000", "the same at 1,000 items a second", "<=", 60),
    ("latency_p99_ms_3000", "the same at 3,000 items a second", "<=", 200),
    ("restore_s_per_million", "seconds to restore a million originals", "<=", 3),
    ("restore_kafka_trickle_vs_flood", "a million from Kafka: one a transaction, times 2,000 a transaction", "<=", 2),
    ("restore_kafka_trickle_open_s", "seconds from a worker's start to its first commit, the former", "<=", 5),
    ("restore_kafka_flood_open_s", "the same, the latter", "<=", 5),
    ("pairs_vs_text_dedup", "all pairs of a corpus: times as fast as text-dedup", ">=", 25),
)


@dataclass(frozen=True, slots=True)
class Section:
    """The figures of one section. `kind`: quick or full, corpus, items, rounds. `packages`: name -> version."""

    date: str
    kind: str
    packages: dict[str, str]
    figures: dict[str, float]


@dataclass(frozen=True, slots=True)
class Results:
    """The newest figures of each section, all measured on one machine."""

    machine: dict[str, str]
    sections: dict[str, Section]

    @property
    def name(self) -> str:
        """Name of the machine's files.

        >>> Results({"processor": "AMD EPYC(tm) 9004", "cores": "2"}, {}).name
        'amd-epyc-tm-9004-2-cores'
        """
        return re.sub(r"[^a-z0-9]+", "-", f"{self.machine['processor']} {self.machine['cores']} cores".lower())

    @property
    def figures(self) -> dict[str, float]:
        """All figures, whatever their section."""
        return {name: value for section in self.sections.values() for name, value in section.figures.items()}


def save(results: Results, directory: Path) -> Results:
    """Merge the results into the machine's file and write its page; return the merged results."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{results.name}.json"
    earlier = load(path).sections if path.is_file() else {}
    rounded = {
        name: replace(section, figures={n: float(f"{value:.5g}") for n, value in section.figures.items()})
        for name, section in results.sections.items()
    }
    merged = Results(results.machine, earlier | rounded)
    path.write_text(json.dumps(asdict(merged), indent=1, ensure_ascii=False) + "\n", "utf-8")
    path.with_suffix(".md").write_text(markdown(merged), "utf-8")
    return merged


def load(path: Path) -> Results:
    """Read the results of one machine."""
    saved: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return Results(saved["machine"], {name: Section(**section) for name, section in saved["sections"].items()})


# -- page and tables --------------------------------------------------------------------------------------------


def rows(figures: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    """Rows of the list of figures: name, value, spread. `NAME_low` and `NAME_high` make up the spread of `NAME`.

    >>> list(rows({"x": 2.0, "x_low": 1.0, "x_high": 30.0, "n": 4000}))
    [('x', '2', '1 to 30'), ('n', '4,000', '')]
    """
    for name, value in figures.items():
        median, _, end = name.rpartition("_")
        if end in ("low", "high") and median in figures:
            continue
        has_spread = f"{name}_low" in figures
        spread = f"{number(figures[f'{name}_low'])} to {number(figures[f'{name}_high'])}" if has_spread else ""
        yield name, number(value), spread


def number(value: float) -> str:
    """Format a number with three significant digits, or all digits of its integer part.

    >>> [number(x) for x in (0.0312, 0.987, 12.345, 1234.5, 7)]
    ['0.0312', '0.987', '12.3', '1,234', '7']
    """
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def claims(results: Results) -> Iterator[tuple[str, str, str, str, str]]:
    """Rows of the table of claims: figure, meaning, value, goal, and whether the value reaches it."""
    figures = results.figures
    for name, meaning, comparison, bound in CLAIMS:
        goal = f"{'at least' if comparison == '>=' else 'at most'} {number(bound)}"
        if name not in figures:
            yield name, meaning, "not measured", goal, ""
            continue
        reached = figures[name] >= bound if comparison == ">=" else figures[name] <= bound
        yield name, meaning, number(figures[name]), goal, "yes" if reached else "no"


def markdown(results: Results) -> str:
    """The page of one machine's results."""
    parts = [
        "# Benchmarks",
        "Made by `make bench`. Compare ratios, not seconds: both sides of a ratio come from one run.",
        table(("machine", ""), results.machine.items()),
        table(("figure", "what", "measured", "goal", "reached"), claims(results)),
    ]
    for name, section in results.sections.items():
        parts += [
            f"## {name}",
            f"{section.date}, {section.kind}. Median of the rounds, lowest to highest.",
            f"With {', '.join(f'{package} {number}' for package, number in section.packages.items())}.",
            table(("figure", "value", "spread"), rows(section.figures)),
        ]
    return "\n\n".join(parts) + "\n"


# -- the machine ------------------------------------------------------------------------------------------------

PACKAGES = (
    "kafka-python", "numpy", "datasketch", "gaoya", "rensa", "simhash", "faiss-cpu", "confluent-kafka",
)  # fmt: skip


def describe() -> dict[str, str]:
    """Processor, cores, memory and system, in the order of the page."""
    processors = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text("utf-8"), re.M)
    return {
        "processor": processors[0] if processors else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
    }


def packages() -> dict[str, str]:
    """Versions of Python and of the installed packages that figures depend on."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
