"""The index proposes pairs as the textbook says, and the intervals hold for pairs that depend on each other."""

from typing import Any

import numpy as np
import pytest
from msgspec import structs

from stream_dedup.evaluate.exact import alike_pairs
from stream_dedup.evaluate.intervals import clustered, effective_size, wilson
from stream_dedup.evaluate.scurve import LOWEST, measured_curve, predicted
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.settings import IndexSettings, Settings, load_settings
from tests.evaluate.news import copies
from tests.evaluate.test_exact import sets_of

BANDS = {"anchors": 0, "body_bands": 8, "body_rows": 3}


@pytest.mark.parametrize(
    ("bands", "rows", "chances"),
    [  # Leskovec, Rajaraman, Ullman: the table of section 3.4.2, for s = .2, .3, … .8
        (20, 5, [0.006, 0.047, 0.186, 0.470, 0.802, 0.975, 0.9996]),
        (16, 8, [0.00004, 0.001, 0.010, 0.061, 0.237, 0.613, 0.947]),  # the classic 128 = 16 × 8
    ],
)
def test_the_textbook_s_table(bands: int, rows: int, chances: list[float]) -> None:
    assert predicted(np.arange(2, 9) / 10, bands, rows) == pytest.approx(chances, abs=6e-4)


def test_the_index_proposes_as_the_textbook_says() -> None:
    settings = load_settings(fingerprint=BANDS)
    items = copies(120, [0.05, 0.2, 0.3, 0.4, 0.5])
    points = measured_curve(items, sets_of(items, settings), Fingerprinter(Scheme(settings.fingerprint)), steps=5)
    assert sum(point.pairs for point in points) > 1000
    for point in points:
        # Five intervals of 95 %, one after the other, hence a little more.
        assert point.interval[0] - 0.02 <= point.predicted <= point.interval[1] + 0.02, point


@pytest.mark.parametrize(
    "fingerprint",
    [
        {"family": "simhash", "layout": "4 choose 1"},  # 16 of 32 key bits need not be equal
        {"family": "simhash", "layout": "4 choose 1", "hamming": 1},
        {"family": "simhash", "layout": "8 choose 1", "bits": 128, "hamming": 7},
        {"family": "simhash", "layout": "5 choose 2"},  # keys are hashes and match as a whole
        BANDS,
        {"anchors": 1},
        {"anchors": 1, "body_bands": 2, "body_rows": 8},
    ],
    ids=["4 choose 1", "4 choose 1, 1 bit", "8 choose 1", "5 choose 2", "bands", "anchors", "anchors and bands"],
)
def test_the_curve_counts_the_pairs_that_the_index_proposes(fingerprint: dict[str, Any]) -> None:
    settings = load_settings(fingerprint=fingerprint)
    items = copies(60, [0.01, 0.02, 0.05, 0.2])
    sets, make = sets_of(items, settings), Fingerprinter(Scheme(settings.fingerprint))
    scheme, body = make.scheme, make.scheme.columns["body"]
    index = HybridIndex(
        scheme.table_of,
        limits=IndexSettings(bucket_limit=len(items)),
        background=False,
        dont_care_bits=scheme.dont_care_bits,
        max_hamming=settings.fingerprint.hamming,
    )
    keys = make(items).keys.copy()
    keys[:, body.stop :] = 0  # only the body's tables
    index.add(keys, np.zeros(len(items), np.int64))
    queries, rows = index.lookup(keys, np.zeros(len(items), np.int64))
    proposed = set(zip(queries.tolist(), rows.tolist(), strict=True))
    first, second, _ = alike_pairs(sets, LOWEST)
    expected = sum(pair in proposed for pair in zip(first.tolist(), second.tolist(), strict=True))
    points = measured_curve(items, sets, make)
    assert 0 < expected < len(first)
    assert round(sum(point.measured * point.pairs for point in points)) == expected


def test_the_intervals_hold_for_pairs_that_are_copies_of_each_other() -> None:
    """Eight copies of one edited article are proposed or missed together, as often as the textbook says of one."""
    groups, alike = 60, 8
    items = []
    made = copies(groups, [0.39])
    for item, edited in zip(made[::2], made[1::2], strict=True):
        items += [item, *(structs.replace(edited, id=f"{edited.id}-{n}") for n in range(alike))]
    sets = sets_of(items, Settings())
    seeds = range(40)
    naive = new = 0
    for seed in seeds:
        settings = load_settings(fingerprint=BANDS | {"seed": seed})
        points = measured_curve(items, sets, Fingerprinter(Scheme(settings.fingerprint)))
        point = next(point for point in points if point.high < 1 and point.pairs == groups * alike)
        low, high = wilson(point.measured, point.pairs)
        naive += low <= point.predicted <= high
        new += point.interval[0] <= point.predicted <= point.interval[1]
        assert point.clusters == groups
        assert point.interval[1] - point.interval[0] < 0.3, "it must say something"
    assert naive < 0.75 * len(seeds) < 0.9 * len(seeds) <= new


def test_one_cluster_has_no_interval() -> None:
    items = copies(1, [0.3])
    (point,) = measured_curve(items, sets_of(items, Settings()), Fingerprinter(Scheme(Settings().fingerprint)))
    assert (point.pairs, point.clusters) == (1, 1.0)
    assert np.isnan(point.interval).all()


@pytest.mark.parametrize("share", [0.1, 0.95])
def test_a_few_large_clusters_are_not_taken_for_many(share: float) -> None:
    random = np.random.default_rng(5)
    trials = np.array([400.0, 300.0, 200.0, *[10.0] * 80])
    assert effective_size(trials) == pytest.approx(9.7, abs=0.05)
    hits = trials * (random.random((100, len(trials))) < share)
    naive = [wilson(hit.sum() / trials.sum(), trials.sum()) for hit in hits]
    assert sum(low <= share <= high for low, high in naive) < 50
    found = [clustered(hit, trials) for hit in hits]
    assert sum(low <= share <= high for low, high in found) >= 90, "the bootstrap alone: about 78"
