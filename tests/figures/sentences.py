"""Figures inside sentences of the pages: the sentence with a place for each figure, and what belongs there.

`docs/build.py` writes the figures into the pages and leaves the rest of the text as it is. A sentence that a page no
longer has is an error, so that a figure cannot come loose from the code. Figures of long runs (tests/results) are plain
text: who runs them reads the pages.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.evaluate.intervals import wilson
from stream_dedup.fingerprint.packed_sets import expected_bytes
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import MEMORY_SLACK, footprint, most_originals, peak_bytes
from stream_dedup.observe.recent import ITEM_BYTES
from stream_dedup.settings import load_settings
from stream_dedup.settings.judging import NOVELTY_NAMES
from stream_dedup.settings.memory import BATCHES, BUSY_BYTES, COPIES, PROCESS_BYTES
from tests.benchmarks.results import Section as Benchmark
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
    figures: Callable[[], tuple[str, ...]]

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
        for number, figure in reversed(list(enumerate(self.figures(), 1))):
            start, end = found[0].span(number)
            page = page[:start] + figure + page[end:]
        return page


def sentences(sections: Mapping[str, Section], benchmarks: Mapping[str, Benchmark]) -> list[Sentence]:
    """Return all sentences. `sections`: of figures.json; `benchmarks`: of the latest results of `make bench`."""
    decision, labels, files = "docs/decision.md", "docs/labels.md", "docs/files.md"
    architecture, python, deploy = "docs/architecture.md", "docs/python.md", "deploy/README.md"
    return [
        Sentence(decision, "words and numbers: {} bytes, and {} keys", _signature),
        Sentence(decision, "Of the keys {} are **anchors**", _anchors),
        Sentence(
            decision,
            '`"cautious"` ({}) misses least, `"balanced"` ({}) is the default, `"eager"` ({})',
            _novelties,
        ),
        Sentence(labels, "(`cautious` is {}, `balanced` {}, `eager` {})", _novelties),
        Sentence(decision, "Readers judged {} pairs of eleven corpora without knowing", lambda: _readers(sections)),
        Sentence(decision, "on {} English and {} Chinese pairs", lambda: _labelled(sections)),
        Sentence(decision, "Its tables propose {} of the pairs with a Jaccard from .95", lambda: _proposed(sections)),
        Sentence(decision, "With `exact`, {} of {} verdicts differ", lambda: _differing(sections)),
        Sentence(decision, "It takes {} bits a shingle of a body of 100 shingles and {} of one of 1,000", _bits),
        Sentence(labels, "on {} items of English news sites", lambda: (f"{sections['curve'].figures['items']:,}",)),
        Sentence(labels, "two labels that agree give the interval {} to 1", lambda: (share(wilson(1.0, 2)[0]),)),
        Sentence(
            files,
            'With `decision.rule = "jaccard"` and `decision.body = {}` it finds {} of {} pairs whose bodies have a '
            "Jaccard of .8 or more ({} English items)",
            lambda: _pairs(sections),
        ),
        Sentence(architecture, "a week of {} items a second fills 64 GiB", _week),
        Sentence(architecture, "SimHash with four tables takes {} % of it", _compact),
        Sentence(
            deploy,
            "with the default keys: {} bytes of signature + {} keys × {} + {} of id + {} = {}",
            _original,
        ),
        Sentence(
            deploy,
            "{} MiB for a busy process, {} times the batch, {} times the largest record",
            lambda: (f"{BUSY_BYTES / _MIB:.0f}", f"{BATCHES}", f"{COPIES}"),
        ),
        Sentence(deploy, "{} % more for the allocator", lambda: (f"{100 * (MEMORY_SLACK - 1):.0f}",)),
        Sentence("docs/operating.md", "recurring prose takes {} MiB in all", _prose),
        Sentence("docs/operating.md", "the last {} items, at most {} kB each", _recent),
        Sentence(deploy, "the process itself takes {} MiB", lambda: (f"{PROCESS_BYTES / _MIB:.0f}",)),
        Sentence(
            deploy,
            "Measured with 10 million originals: {} resident bytes each",
            lambda: (f"{benchmarks['memory'].figures['bytes_per_original_default']:.0f}",),
        ),
        Sentence(python, "A million originals take {} MiB", lambda: _saved(benchmarks)),
    ]


def _signature() -> tuple[str, ...]:
    scheme = Scheme(load_settings().fingerprint)
    return str(scheme.signature_dtype.itemsize), str(scheme.key_columns)


def _anchors() -> tuple[str, ...]:
    return (str(load_settings().fingerprint.anchors),)


def _novelties() -> tuple[str, ...]:
    return tuple(share(novelty, 1) for novelty in NOVELTY_NAMES.values())


def _readers(sections: Mapping[str, Section]) -> tuple[str, ...]:
    return (f"{sections['readers'].figures['pairs']:,}",)


def _labelled(sections: Mapping[str, Section]) -> tuple[str, ...]:
    figures = next(iter(sections["families"].figures.values()))
    return tuple(str(figures[column.name]["pairs"]) for column in LABELLED)


def _proposed(sections: Mapping[str, Section]) -> tuple[str, ...]:
    return (share(sections["families"].figures[FAMILY][LABELLED[0].name]["curve"][-1][-1], 2),)


def _differing(sections: Mapping[str, Section]) -> tuple[str, ...]:
    found = sections["exactness"].figures['`verify = "exact"`'].values()
    differing = sum(one["misses"] + one["false_drops"] for one in found)
    return f"{differing:,}", f"{sum(one['items'] for one in found):,}"


def _bits() -> tuple[str, ...]:
    return tuple(f"{8 * expected_bytes(shingles) / shingles:.0f}" for shingles in (100, 1000))


def _pairs(sections: Mapping[str, Section]) -> tuple[str, ...]:
    found = sections["pairs"].figures
    return f"{found['body']:g}", f"{found['found']:,}", f"{found['pairs']:,}", f"{found['items']:,}"


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def _week() -> tuple[str, ...]:
    settings = load_settings(worker={"memory": "64G"})
    let_through = 0.75 * 7 * 86400  # of an item a second
    return (f"{_two_digits(most_originals(settings, Scheme(settings.fingerprint)) / let_through):,.0f}",)


def _compact() -> tuple[str, ...]:
    compact = load_settings(fingerprint={"family": "simhash", "layout": "4 choose 1"})
    schemes = Scheme(compact.fingerprint), Scheme(load_settings().fingerprint)
    small, usual = (peak_bytes(ORIGINALS, footprint(scheme, ORIGINALS)) for scheme in schemes)
    return (f"{100 * small / usual:.0f}",)


def _original() -> tuple[str, ...]:
    takes = footprint(Scheme(load_settings().fingerprint), ORIGINALS)
    rest = takes.bytes_per_item - takes.record_bytes - takes.keys * takes.key_bytes - takes.id_bytes
    return (
        str(takes.record_bytes), str(takes.keys), f"{takes.key_bytes:.2f}", f"{takes.id_bytes:.0f}", f"{rest:.0f}",
        f"{takes.bytes_per_item:.0f}",
    )  # fmt: skip


def _prose() -> tuple[str, ...]:
    return (f"{Boilerplate().nbytes / _MIB:.0f}",)


def _recent() -> tuple[str, ...]:
    return f"{load_settings().observe.recent_items:,}", f"{ITEM_BYTES / 1000:g}"


def _saved(benchmarks: Mapping[str, Benchmark]) -> tuple[str, ...]:
    return (f"{benchmarks['restore'].figures['changelog_bytes_per_original'] * 1e6 / _MIB:.0f}",)
