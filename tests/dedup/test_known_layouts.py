"""Layouts that the literature and other tools use can be set, and work from the fingerprint to a restored index."""

import tomllib

import numpy as np
import pytest

from stream_dedup.changelog.block import decode, encode
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import DecisionSettings, FingerprintSettings, load_settings
from stream_dedup.tools.evaluate.planner import Traffic, advise, evaluate
from tests.dedup.world import told
from tests.tools.evaluate.news import words

PLAIN = {"rule": "jaccard", "body": 0.3}
TEXT, OTHERS = words(400), words(9000)[400:]


def item(name: str, changed: int = 0) -> Item:
    """An article of 400 words; with `changed`, every sixth word is another one, which leaves a Jaccard of a third."""
    text = [OTHERS[place + changed] if changed and place % 6 == 0 else word for place, word in enumerate(TEXT)]
    return Item(name, "", " ".join(text), f"{name}.example", 0)


@pytest.mark.parametrize(
    ("bands", "rows"),
    [(100, 2), (450, 20), (1024, 16), (1, 512)],
    ids=["100 x 2", "Lee et al. 2022", "most bands", "most rows"],
)
def test_an_index_with_this_layout_is_judged_stored_and_restored(bands: int, rows: int) -> None:
    settings = load_settings(fingerprint={"anchors": 0, "body_bands": bands, "body_rows": rows}, decision=PLAIN)
    scheme = Scheme(settings.fingerprint)
    keys = Fingerprinter(scheme)([item("a"), item("b")]).keys
    assert keys.shape == (2, scheme.key_columns)
    assert scheme.key_columns == bands + 2 + 2
    assert len(np.unique(keys[0, :bands])) == bands
    assert (keys[0, :bands] == keys[1, :bands]).all()
    dedup, restored = Deduplicator(settings), Deduplicator(settings)
    batch = dedup.judge([item("a")])
    block = encode(batch.delta, scheme.id)
    restored.restore(decode(block, scheme.id, scheme.signature_dtype))
    copy = restored.judge([item("b")]).verdicts[0]
    assert told([copy]) == [("duplicate", "a")]


def test_a_plan_may_propose_more_than_64_bands_and_its_settings_are_accepted() -> None:
    traffic, decision = Traffic(1_000_000), DecisionSettings(rule="jaccard", body=0.25)
    bands = FingerprintSettings(anchors=0, body_bands=16)
    made = advise(traffic, bands, decision, recall=0.99).proposed
    assert made is not None
    assert made.settings["body_bands"] > 64
    pasted = FingerprintSettings.model_validate(tomllib.loads(made.toml())["fingerprint"])
    assert (evaluate(traffic, pasted, decision).recall or 0) >= 0.99


def test_the_schemes_of_settings_in_use_have_kept_their_ids() -> None:
    """Another id would refuse every changelog."""
    ids = [
        f"{Scheme(FingerprintSettings.model_validate(changed)).id:016x}"
        for changed in ({}, {"family": "simhash"}, {"verify": "exact"}, {"body_bands": 64, "body_rows": 16})
    ]
    assert ids == ["135aadad8e7c6502", "fb1ff71ae170cf69", "59d998ff58c4aa5d", "737ffe594389a18b"]
