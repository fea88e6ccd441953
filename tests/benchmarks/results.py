"""The results of a run: kept, merged with what earlier runs measured, and shown.

In: each section's flat figures. Out, in one directory: `DATE.json` (this run, by section), `latest.json` (one flat
object: every section's newest figures) and `latest.md` (the same for people).

A section that a run leaves out keeps its last figures, with the date and kind of the run they come from in
`measured_SECTION`; but only if they come from the same machine and Python packages of the project, else it is absent.
A figure `NAME` with `NAME_low` and `NAME_high` is the median of the rounds and their spread.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from tests.benchmarks.machine import ABSENT

# What the project wants to show, as ratios and bounds: figure, its meaning, "at least" or "at most", bound.
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
    ("growth_four_lookup_1e6_to_1e8", "times a lookup's cost at 100 million over that at 1 million", "<=", 4),
    ("pause_ms_p99_merge_minhash_10m", "ms a batch of 500 lookups during merges, 99th percentile", "<=", 20),
    ("bytes_per_original_default", "bytes of memory an original, all included", "<=", 640),
    ("bytes_per_original_compact", "the same for the compact SimHash profile", "<=", 160),
    ("worker_vs_passthrough_unique", "worker's share of the bare pass-through, nothing held back", ">=", 0.9),
    ("worker_vs_passthrough_news", "the same on the news, with copies", ">=", 1),
    ("worker_vs_quix_datasketch", "times as fast as Quix Streams with datasketch", ">=", 4),
    ("latency_p99_ms_1000", "ms from produced to readable at 1,000 items a second, 99th percentile", "<=", 150),
    ("restore_s_per_million", "seconds to restore a million originals", "<=", 3),
    ("restore_kafka_trickle_vs_flood", "a million from Kafka: one a transaction, times 2,000 a transaction", "<=", 2),
    ("restore_kafka_trickle_open_s", "seconds from a worker's start to its first commit, the former", "<=", 5),
    ("restore_kafka_flood_open_s", "the same, the latter", "<=", 5),
    ("pairs_vs_text_dedup", "all pairs of a corpus: times as fast as text-dedup", ">=", 10),
)
PLOT = "growth.svg"
"""The curves of the section "growth", beside the page."""
RULES = {"ours": "ours", "jaccard": "Jaccard >= .8", "retsim": "RETSim"}
MEASURES = ("recall", "precision", "missed", "repeated")
"""Rules (by their name in figures) and columns of the table of the section "readers"."""
# A ratio between runs on other versions of these says nothing.
_SAME = ("processor", "cores", "memory", "python", "numpy", "numba", "kafka-python")
# A figure that stands in the table of rules and not in the list.
_BY_RULE = re.compile(rf"readers_({'|'.join(MEASURES)})_({'|'.join(RULES)})_(.+)")
_READERS = (
    "recall, precision: of finding the same article again. missed: of what is held back, the share in which a reader "
    "would miss something; repeated: of what repeats an article, the share that is let through. What favours whom, and "
    "what the times are: tests/benchmarks/readers.py."
)


@dataclass(frozen=True, slots=True)
class Section:
    """What one run measured of one section. `kind`: quick or full, corpus, items, rounds."""

    date: str
    kind: str
    figures: dict[str, float]


@dataclass(frozen=True, slots=True)
class Results:
    """The newest figures by section, and the machine they come from."""

    machine: dict[str, str]
    sections: dict[str, Section]

    def merged(self, earlier: "Results | None") -> "Results":
        """With the sections of an earlier run on the same machine that this one left out."""
        if earlier is None or any(self.machine.get(key) != earlier.machine.get(key) for key in _SAME):
            return self
        return Results(self.machine | _peers(earlier, self), earlier.sections | self.sections)

    def flat(self) -> dict[str, str | float]:
        """One object: the machine, `measured_SECTION`, every figure."""
        out: dict[str, str | float] = dict(self.machine)
        for name, section in self.sections.items():
            out[f"measured_{name}"] = f"{section.date}, {section.kind}"
            out |= {key: round(value, 4) for key, value in section.figures.items()}
        return out


def _peers(earlier: Results, now: Results) -> dict[str, str]:
    """Versions that only the earlier run had: its figures of these peers stay."""
    return {n: version for n, version in earlier.machine.items() if now.machine.get(n, ABSENT) == ABSENT}


def save(results: Results, directory: Path, stamp: str) -> Results:
    """Writes the three files; returns what is now the newest."""
    directory.mkdir(parents=True, exist_ok=True)
    newest = results.merged(load(directory))
    _write(directory / f"{stamp}.json", asdict(newest))
    _write(directory / "latest.json", newest.flat())
    (directory / "latest.md").write_text(markdown(newest), "utf-8")
    return newest


def load(directory: Path) -> Results | None:
    """The newest dated results of a directory, if there are any."""
    dated = sorted(directory.glob("[0-9]*.json"))
    if not dated:
        return None
    kept: dict[str, Any] = json.loads(dated[-1].read_text("utf-8"))
    return Results(kept["machine"], {name: Section(**one) for name, one in kept["sections"].items()})


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", "utf-8")


# -- for people --------------------------------------------------------------------------------------------


def rows(figures: Mapping[str, float]) -> Iterator[tuple[str, str, str]]:
    """Figure, value, spread; what is the spread of another figure gets no row of its own.

    >>> list(rows({"x": 2.0, "x_low": 1.0, "x_high": 30.0, "n": 4000}))
    [('x', '2', '1 to 30'), ('n', '4,000', '')]
    """
    for name, value in figures.items():
        if _BY_RULE.fullmatch(name):
            continue
        stem, _, end = name.rpartition("_")
        if end in ("low", "high") and stem in figures:
            continue
        has_spread = f"{name}_low" in figures
        spread = f"{number(figures[f'{name}_low'])} to {number(figures[f'{name}_high'])}" if has_spread else ""
        yield name, number(value), spread


def by_rule(figures: Mapping[str, float]) -> Iterator[tuple[str, ...]]:
    """Corpus (`all` last), rule and what readers say of it, of `readers_MEASURE_RULE_CORPUS`; "" is a rate of nothing.

    >>> list(by_rule({"readers_recall_ours_news": 0.98765, "readers_missed_ours_news": 0.04}))
    [('news', 'ours', '.988', '', '.040', '')]
    """
    table: dict[tuple[str, str], dict[str, str]] = {}
    for name, value in figures.items():
        if found := _BY_RULE.fullmatch(name):
            measure, rule, corpus = found.groups()
            table.setdefault((corpus, rule), {})[measure] = f"{value:.3f}".removeprefix("0")
    order = {corpus: place for place, corpus in enumerate(dict.fromkeys(corpus for corpus, _ in table))}
    rules = list(RULES)
    for corpus, rule in sorted(table, key=lambda row: (row[0] == "all", order[row[0]], rules.index(row[1]))):
        yield corpus, RULES[rule], *(table[corpus, rule].get(measure, "") for measure in MEASURES)


def number(value: float) -> str:
    """Three significant digits, more where the number is large.

    >>> [number(x) for x in (0.0312, 0.987, 12.345, 1234.5, 7)]
    ['0.0312', '0.987', '12.3', '1,234', '7']
    """
    if value == int(value):
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def claims(results: Results) -> Iterator[tuple[str, str, str, str, str]]:
    """Figure, meaning, value, goal, and whether it is reached."""
    found = {key: value for section in results.sections.values() for key, value in section.figures.items()}
    for name, meaning, comparison, bound in CLAIMS:
        goal = f"{'at least' if comparison == '>=' else 'at most'} {number(bound)}"
        if name not in found:
            yield name, meaning, "not measured", goal, ""
            continue
        reached = found[name] >= bound if comparison == ">=" else found[name] <= bound
        yield name, meaning, number(found[name]), goal, "yes" if reached else "no"


def markdown(results: Results) -> str:
    """The whole page."""
    lines = ["# Benchmarks", "", "Made by `make bench`. Compare ratios, not seconds: they come from one run.", ""]
    lines += _table(("machine", ""), list(results.machine.items()))
    lines += _table(("figure", "what", "measured", "goal", "reached"), list(claims(results)))
    for name, section in results.sections.items():
        note = _READERS if name == "readers" else "Median of the rounds, lowest to highest."
        lines += [f"## {name}", "", f"{section.date}, {section.kind}. {note}", ""]
        lines += [f"![cost against originals]({PLOT})", ""] if name == "growth" else []
        judged = list(by_rule(section.figures))
        lines += _table(("corpus", "rule", *MEASURES), judged) if judged else []
        lines += _table(("figure", "value", "spread"), list(rows(section.figures)))
    return "\n".join(lines)


def _table(head: tuple[str, ...], body: list[tuple[str, ...]]) -> list[str]:
    lines = [" | ".join(cells) for cells in (head, ("---",) * len(head), *body)]
    return [*(f"| {line} |" for line in lines), ""]


def tables(results: Results) -> Iterator[Table]:
    """The same for a terminal."""
    goals = Table("figure", "what", "measured", "goal", "reached", title="what is to be shown")
    for row in claims(results):
        goals.add_row(*row)
    for name, section in results.sections.items():
        table = Table("figure", "value", "spread", title=f"{name}: {section.kind}")
        for one in rows(section.figures):
            table.add_row(*one)
        if judged := list(by_rule(section.figures)):
            answers = Table("corpus", "rule", *MEASURES, title=f"{name}: what people judged")
            for answer in judged:
                answers.add_row(*answer)
            yield answers
        yield table
    yield goals
