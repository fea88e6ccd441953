"""Render the measured figures, and those that follow from the code alone, as Markdown tables.

`docs/build.py` puts each table between its markers in a page.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import expected_body_bytes, footprint, most_originals, peak_bytes
from stream_dedup.settings import load_settings
from tests.lab.figures.families import FAMILIES, LABELLED
from tests.lab.figures.languages import NEWS
from tests.lab.figures.results import Section

ORIGINALS = 1_000_000
"""For which bytes an original are stated: a table's directory takes half a byte an original more or less."""
_MEMORIES = ("768M", "1G", "1.5G", "2G", "4G", "8G")
_MIB, _GIB = 2**20, 2**30
_ARCHIVE = re.compile(r"(items|flood) (\d+),(?: bucket limit (\d+),)? (local\[\d+\]|single process)(?:, \d+ threads)?")


def share(value: float, digits: int = 3) -> str:
    """Format a share. 1.0 is exactly 1.

    >>> share(0.98521), share(0.80691, 2), share(1.0), share(0.99997)
    ('.985', '.81', '1.0', '1.000')
    """
    return "1.0" if value == 1 else f"{value:.{digits}f}".removeprefix("0")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [" | ".join(cells) for cells in (head, ("---",) * len(head), *rows)]
    return "\n".join(f"| {line} |" for line in lines)


# -- docs/decision.md ---------------------------------------------------------------------------------------------


def families(section: Section) -> str:
    """Each family: bytes an original, recall and precision with the whole decision and with the body alone."""
    head = ["body", "bytes an original"]
    for column in LABELLED:
        pairs = next(iter(section.figures.values()))[column.name]["pairs"]
        head += [f"{column.name}, {pairs} pairs", "body alone"]
    rows = []
    for row, tables in FAMILIES.items():
        figures = section.figures[row]
        cells = [row, f"{original_bytes(tables, figures[LABELLED[0].name]['body_bytes']):,.0f}"]
        for column in LABELLED:
            cells += [_both(figures[column.name]["all"], 3), _both(figures[column.name]["alone"], 2)]
        rows.append(cells)
    return table(head, rows)


def original_bytes(tables: Mapping[str, Mapping[str, Any]], body_bytes: float = 0.0) -> float:
    """Return the bytes an original takes at rest, its id included. `body_bytes`: of a body that is kept whole."""
    scheme = Scheme(load_settings(fingerprint=dict(tables.get("fingerprint", {}))).fingerprint)
    return footprint(scheme, ORIGINALS, body_bytes=body_bytes).bytes_per_item


def _both(rates: Sequence[float], digits: int) -> str:
    return " / ".join(share(rate, digits) for rate in rates)


def proposed(section: Section) -> str:
    """The share of pairs that the body's tables propose, by interval of Jaccard, in the first labelled corpus."""
    column = LABELLED[0].name
    points = next(iter(section.figures.values()))[column]["curve"]
    head = ["body", *(f"{share(low, 2)} to {share(high, 2)}" for low, high, *_ in points)]
    rows = [
        ["pairs", *(f"{pairs:,}" for _, _, pairs, *_ in points)],
        ["effective number of clusters", *(f"{clusters:.1f}" for _, _, _, clusters, _ in points)],
    ]
    rows += [[row, *(share(point[-1]) for point in section.figures[row][column]["curve"])] for row in FAMILIES]
    return table(head, rows)


def short(section: Section) -> str:
    """What is held back of short items: of each feed itself, and of copies by typing errors and with another number."""
    head = ["feed", "shingles", "held back", "with other numbers"]
    first = next(iter(next(iter(section.figures.values()))["rows"].values()))
    head += [f"{errors} errors" if errors > 1 else "1 error" for errors in range(1, len(first["found"]))]
    head.append("another number")
    rows = []
    for feed, found in section.figures.items():
        for row, figures in found["rows"].items():
            counts = [f"{figures['held'] / found['items']:.2%}".replace("%", " %"), f"{figures['other_numbers']:,}"]
            name = f"{feed}, {found['items']:,}" if row == next(iter(found["rows"])) else ""
            found_shares = [*figures["found"][1:], figures["changed"]]
            rows.append([name, row, *counts, *(share(value, 2) for value in found_shares)])
    return table(head, rows)


def languages(section: Section, before: Mapping[str, Any]) -> str:
    """How many made-up reports an edit is held back of, now and before, and the languages in which it is wrong."""
    rows = [
        [edit, "news" if edit in NEWS else "copy", *(str(one["held"]) for one in (before["figures"][edit], found)),
         str(found["of"]), found["wrong"] or "–"]
        for edit, found in section.figures.items()
    ]  # fmt: skip
    return table(["edit", "it is", f"held before ({before['commit']})", "held now", "of", "wrong in"], rows)


def exactness(section: Section) -> str:
    """The agreement of sketches with whole sets, and their bytes."""
    head = ["`fingerprint`"]
    for corpus, found in next(iter(section.figures.values())).items():
        head += [f"{corpus}, {found['items']:,}", "bytes a body"]
    rows = []
    for row, corpora in section.figures.items():
        cells = [row]
        for found in corpora.values():
            cells += [share(found["agreement"], 4), f"{found['sketch_bytes']:,}"]
        rows.append(cells)
    return table(head, rows)


# Measured once on the same pairs: RETSim needs an environment of its own, and hours.
ALONE = (
    ["Jaccard of headline and body ≥ .8, the pair alone (2026-11-23)", ".037", ".433"],
    ["RETSim, an embedding, the pair alone (2026-11-23)", ".174", ".175"],
)


def readers(section: Section) -> str:
    """What readers miss and see twice, by rule."""
    figures = section.figures
    jaccard = share(figures["threshold"], 1)

    def measured(name: str, found: Mapping[str, float]) -> list[str]:
        return [name, share(found["missed"]), share(found["repeated"])]

    return table(
        [f"rule, on {figures['pairs']:,} pairs", "missed", "repeated"],
        [
            *(measured(f"`{name}`, the pair alone", found) for name, found in figures["cross-validated"].items()),
            *ALONE,
            measured("`balanced`, the whole corpus as a stream", figures["stream"]),
            measured(f"body Jaccard ≥ {jaccard}, what most tools do, the whole corpus as a stream", figures["jaccard"]),
        ],
    )


# -- docs/spark.md ------------------------------------------------------------------------------------------------


def spark(results: Mapping[str, Mapping[str, float]]) -> str:
    """Time and memory of archives, as `tests.tools.spark.scale` measured: news by size, then floods of one form."""
    rows: list[tuple[tuple[bool, int, str], list[str]]] = []
    for name, figures in results.items():
        if (match := _ARCHIVE.fullmatch(name)) is None:
            continue
        kind, items, limit, engine = match[1], int(match[2]), match[3], match[4]
        what = f"{items:,}" + (f" pages of one form, bucket limit {limit}" if kind == "flood" else "")
        cells = [
            what,
            engine,
            f"{figures['cpu_seconds']:.0f}",
            f"{float(format(figures['cpu_us_an_item'], '.2g')):,.0f}",
            f"{round(figures['peak_mib'], -1):,.0f}",
        ]
        rows.append(((kind == "flood", items, engine), cells))
    head = ["English news", "engine", "processor time, s", "µs an item", "peak memory, MiB"]
    return table(head, [cells for _, cells in sorted(rows)])


# -- deploy/sizing.md ---------------------------------------------------------------------------------------------


def sizing() -> str:
    """What [worker] memory has room for, with the default tables."""
    rows = []
    for memory in _MEMORIES:
        settings = load_settings(worker={"memory": memory})
        scheme = Scheme(settings.fingerprint)
        most = most_originals(settings, scheme)
        takes = footprint(scheme, most, body_bytes=expected_body_bytes(scheme, settings))
        rows.append(
            [
                f"{settings.worker.memory / _GIB:g} GiB",
                f"{most:,}",
                mib(most * takes.bytes_per_item),
                mib(peak_bytes(most, takes)),
                mib(settings.worker.batch_bytes),
                mib(settings.worker.max_record_bytes),
            ]
        )
    head = ["`[worker] memory`", "originals", "at rest", "while merging, at most", "a batch", "the largest record"]
    return table(head, rows)


def mib(count: float) -> str:
    """Format bytes.

    >>> mib(1_572_864_000)
    '1,500 MiB'
    """
    return f"{count / _MIB:,.0f} MiB"
