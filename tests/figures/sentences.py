"""Figures inside sentences of the pages: the sentence with a place for each figure, and what belongs there.

`docs/build.py` writes the figures into the pages and leaves the rest of the text as it is. A sentence that a page no
longer has is an error, so that a figure cannot come loose from the code. Figures of long runs (tests/results) are plain
text: who runs them reads the pages.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.evaluate.rates import wilson
from stream_dedup.fingerprint.packed_sets import expected_bytes
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import MEMORY_SLACK, footprint, most_originals, peak_bytes
from stream_dedup.observe.retained import ITEM_BYTES
from stream_dedup.settings import load_settings
from stream_dedup.settings.judging import NOVELTY_NAMES
from stream_dedup.settings.memory import BATCHES, BUSY_BYTES, COPIES, PROCESS_BYTES
from tests.benchmarks.results import Section as Benchmark
from tests.figures.edits import held_of_news
from tests.figures.families import LABELLED
from tests.figures.results import Section
from tests.figures.tables import ORIGINALS, share

FAMILY = "`simhash`, 64 bits, k = 3"
_MIB = 2**20
_FIGURE = r"(\.?\d[\d,]*(?:\.\d+)?)"


class Sentence(NamedTuple):
    """A part of a page with `{}` for each figure. Line breaks may stand wherever it has spaces."""

    page: str
    text: str
    figures: tuple[str, ...]

    @property
    def pattern(self) -> re.Pattern[str]:
        parts = [r"\s+".join(map(re.escape, part.split(" "))) for part in self.text.split("{}")]
        return re.compile(_FIGURE.join(parts))

    def written(self, page: str) -> str:
        """Return the page with today's figures in the sentence. Raises ValueError if it does not have it once."""
        found = list(self.pattern.finditer(page))
        if len(found) != 1:
            raise ValueError(
                f"{self.page} has {len(found)} times, not once: {self.text!r}; a sentence with figures is changed in "
                "tests/figures/sentences.py too"
            )
        for number, figure in reversed(list(enumerate(self.figures, 1))):
            start, end = found[0].span(number)
            page = page[:start] + figure + page[end:]
        return page


def sentences(sections: Mapping[str, Section], benchmarks: Mapping[str, Benchmark]) -> list[Sentence]:
    """Return all sentences. `sections`: of figures.json; `benchmarks`: of the latest results of `make bench`."""
    measured = {name: one.figures for name, one in sections.items()}
    settings, large = load_settings(), load_settings(worker={"memory": "64G"})
    scheme = Scheme(settings.fingerprint)
    takes = footprint(scheme, ORIGINALS)
    rest = takes.bytes_per_item - takes.record_bytes - takes.keys * takes.key_bytes - takes.id_bytes
    let_through = 0.75 * 7 * 86400  # of an item a second, in a week
    a_second = most_originals(large, Scheme(large.fingerprint)) / let_through
    compact = Scheme(load_settings(fingerprint={"family": "simhash", "layout": "4 choose 1"}).fingerprint)
    compact_peak = peak_bytes(ORIGINALS, footprint(compact, ORIGINALS))
    novelties = [f"{novelty:g}".removeprefix("0") for novelty in NOVELTY_NAMES.values()]
    labelled = next(iter(measured["families"].values()))
    exact = measured["exactness"]['`verify = "exact"`'].values()
    saved = benchmarks["restore"].figures["changelog_bytes_per_original"] * 1e6 / _MIB
    rates = measured["readers"]["cross-validated"]
    promised = {
        name: (
            "Measured: " + name + " holds back {} of the edits with news; readers miss {} and see {} again",
            [share(held_of_news(edited), 2), *(share(rates[name][rate], 2) for rate in ("missed", "repeated"))],
        )
        for name, edited in measured["edits"].items()
    }
    rows: dict[str, list[tuple[str, list[Any]]]] = {
        "stream_dedup/settings/judging.py": list(promised.values()),
        "docs/decision.md": [
            ("and of its figures: {} bytes, and {} keys", [takes.record_bytes, scheme.key_columns]),
            ("Of the keys {} are **anchors**", [settings.fingerprint.anchors]),
            ('`"cautious"` ({}), `"balanced"` ({}, the default) and `"eager"` ({})', novelties),
            ("Readers judged {} pairs of eleven corpora without knowing", [measured["readers"]["pairs"]]),
            ("on {} English and {} Chinese pairs", [labelled[column.name]["pairs"] for column in LABELLED]),
            (
                "Its tables propose {} of the pairs with a Jaccard from .95",
                [share(measured["families"][FAMILY][LABELLED[0].name]["curve"][-1][-1], 2)],
            ),
            (
                "With `exact`, {} of {} verdicts differ",
                [sum(one["misses"] + one["false_drops"] for one in exact), sum(one["items"] for one in exact)],
            ),
            (
                "It takes {} bits a shingle of a body of 100 shingles and {} of one of 1,000",
                [round(8 * expected_bytes(shingles) / shingles) for shingles in (100, 1000)],
            ),
        ],
        "docs/labels.md": [
            ("(`cautious` is {}, `balanced` {}, `eager` {};", novelties),
            ("two labels that agree give the interval {} to 1", [share(wilson(1.0, 2)[0])]),
        ],
        "deploy/README.md": [
            ("a week of {} items a second fills 64 GiB", [f"{float(f'{a_second:.2g}'):,.0f}"]),
            ("SimHash with four tables takes {} % of it", [round(100 * compact_peak / peak_bytes(ORIGINALS, takes))]),
            (
                "with the default keys: {} bytes of signature + {} keys × {} + {} of id + {} = {}",
                [
                    takes.record_bytes, takes.keys, f"{takes.key_bytes:.2f}", round(takes.id_bytes), round(rest),
                    round(takes.bytes_per_item),
                ],
            ),
            (
                "{} MiB for a busy process, {} times the batch, {} times the largest record",
                [round(BUSY_BYTES / _MIB), BATCHES, COPIES],
            ),
            ("{} % more for the allocator", [round(100 * (MEMORY_SLACK - 1))]),
            ("the process itself takes {} MiB", [round(PROCESS_BYTES / _MIB)]),
            (
                "Measured with 10 million originals: {} resident bytes each",
                [round(benchmarks["memory"].figures["bytes_per_original_default"])],
            ),
        ],
        "docs/operating.md": [
            ("recurring prose takes {} MiB in all", [round(Boilerplate().nbytes / _MIB)]),
            ("the last {} items, at most {} kB each", [settings.observe.recent_items, f"{ITEM_BYTES / 1000:g}"]),
        ],
        "docs/python.md": [("A million originals take {} MiB", [round(saved)])],
    }  # fmt: skip
    return [
        Sentence(page, text, tuple(one if isinstance(one, str) else f"{one:,}" for one in figures))
        for page, of_page in rows.items()
        for text, figures in of_page
    ]
