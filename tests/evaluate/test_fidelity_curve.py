"""The stream agrees with exact sets, and the index with the textbook's curve."""

import numpy as np
import pytest

from stream_dedup.evaluate.curve import measured_curve, predicted
from stream_dedup.evaluate.fidelity import fidelity
from stream_dedup.evaluate.sets import ShingleSets, body_sets, shingle_sets
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from tests.evaluate.news import copies


def sets_of(items: list[Item], settings: Settings) -> ShingleSets:
    return shingle_sets(body_sets(items, Fingerprinter(Scheme(settings.fingerprint))))


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
    settings = load_settings(fingerprint={"body_bands": 8, "body_rows": 3})
    items = copies(120, [0.05, 0.2, 0.3, 0.4, 0.5])
    points = measured_curve(items, sets_of(items, settings), Fingerprinter(Scheme(settings.fingerprint)), steps=5)
    assert sum(point.pairs for point in points) > 1000
    for point in points:
        # Pairs of one article are not independent, hence four standard errors and a little.
        assert abs(point.measured - point.predicted) <= 4 * point.error + 0.02, point


def test_exact_sets_and_the_stream_agree_away_from_the_threshold() -> None:
    settings = Settings()
    items = copies(60, [0.02, 0.5])
    found = fidelity(items, sets_of(items, settings), settings, 0.8)
    assert (found.agreement, found.held_exactly, found.items) == (1.0, 60, 180)
    assert sum(band.items for band in found.bands) == 180


def test_disagreements_lie_in_the_band_of_their_jaccard() -> None:
    settings = load_settings(fingerprint={"body_bins": 64})  # a coarse sketch errs
    items = copies(150, [0.085, 0.1, 0.115])
    found = fidelity(items, sets_of(items, settings), settings, 0.8)
    assert found.misses + found.false_drops > 0
    assert found.agreement == 1 - (found.misses + found.false_drops) / found.items
    assert sum(band.misses for band in found.bands if band.low >= 0.8) == found.misses
    assert sum(band.false_drops for band in found.bands) == found.false_drops
    finer = load_settings(fingerprint={"body_bins": 2048})
    assert fidelity(items, sets_of(items, finer), finer, 0.8).agreement > found.agreement


def test_headlines_times_and_ids_have_no_say_before_the_oracle() -> None:
    settings = Settings()
    text = copies(1, [])[0].text
    items = [
        Item("x", "One headline", text, "site.example", 0),
        Item("x", "Quite another", text, "site.example", 10**15),
        Item("y", "No body", "", "site.example", 0),
    ]
    found = fidelity(items, sets_of(items, settings), settings, 0.8)
    assert (found.items, found.held_exactly, found.agreement) == (2, 1, 1.0)
