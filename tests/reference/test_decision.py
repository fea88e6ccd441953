"""The product's similarities and verdicts are those of the specification, in every family and policy, bit for bit."""

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from stream_dedup.dedup.batch import Delta
from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.dedup.corrections import corrections
from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.similarity import SIMILARITY
from stream_dedup.dedup.source_rules import rule_of
from stream_dedup.errors import BadItem
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.hybrid import BUCKET_LIMIT
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import FingerprintSettings, load_settings
from stream_dedup.tools.pair_rule import compare as product_compare
from tests.reference.decision import Stream
from tests.reference.fingerprint import fingerprint
from tests.reference.made_up import FORM, article, edited
from tests.reference.similarity import FLAGS, FLOATS, compare

HOUR = 3_600_000
FAMILIES: dict[str, dict[str, Any]] = {
    "default": {},
    "exact": {"verify": "exact"},
    "letters": {"shingles": "letters"},
    "simhash": {"family": "simhash", "hamming": 3},
}
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    **{name: {"fingerprint": fingerprint} for name, fingerprint in FAMILIES.items()},
    "cautious": {"decision": {"novelty": "cautious"}, "window": {"length": "20h"}},
    "eager": {"decision": {"novelty": "eager"}, "policy": {"updates": "drop"}},
    "forward": {"policy": {"updates": "forward"}},
    "jaccard": {"decision": {"jaccard": 0.6}},
    "exact jaccard": {"decision": {"jaccard": 0.5}, "fingerprint": FAMILIES["exact"], "policy": {"updates": "drop"}},
    "near tables": {"fingerprint": {"family": "simhash", "hamming": 6}, "policy": {"updates": "forward"}},
    "sources": {"sources": {"pass": ["a.example"], "ignore": ["forms.example"], "prefer": ["c.example"]}},
    "preferred jaccard": {
        "sources": {"prefer": ["A.example", "c.example"]},
        "decision": {"jaccard": 0.5},
        "policy": {"updates": "drop"},
    },
    "preferred": {"sources": {"prefer": ["c.example"], "pass": ["a.example"]}, "policy": {"updates": "drop"}},
    "given": {"fingerprint": {"family": "given"}, "item": {"fields": {"fingerprint": "phash"}}},
}
NAMES = [*FLOATS, *FLAGS, "smaller_size"]


def bits_of(values: dict[str, Any]) -> dict[str, bytes]:
    return {name: np.asarray(values[name], SIMILARITY[name]).tobytes() for name in NAMES}


@pytest.mark.parametrize("family", FAMILIES)
@given(seed=st.integers(0, 2**32))
@examples(max_examples=30)
def test_the_similarities_of_a_pair_are_those_of_the_specification(family: str, seed: int) -> None:
    draw, scheme = Random(seed), Scheme(FingerprintSettings.model_validate(FAMILIES[family]))
    known = article(draw, "known", draw.randrange(40) * HOUR, draw.choice([0, 1, 4, 12]))
    items = [known, *(edited(draw, known, draw.choice(["known", f"{n}"]), n * 20 * HOUR) for n in range(3))]
    prints, expected = Fingerprinter(scheme)(items), [fingerprint(item, scheme) for item in items]
    table, recurring = Boilerplate(), set[int]()
    for passage in expected[1].passages[::3]:
        table.add(np.full(3, passage.hash, np.uint32), np.ones(3, int), np.full(3, 10**6))
        recurring.add(passage.hash)
    assert set(NAMES) == set(SIMILARITY.names or ())
    for asked in (True, False):
        boilerplate = (table, np.zeros(len(items), np.int64)) if asked else None
        pairs = np.array(list(product(range(len(items)), repeat=2))).T
        found = product_compare(prints, prints.signatures, *pairs, boilerplate=boilerplate, corrects=corrections(items))
        for pair, i, j in zip(found, *pairs.tolist(), strict=True):
            apart = abs(items[i].time - items[j].time) / HOUR
            s = compare(items[i], expected[i], expected[j], scheme, apart, recurring if asked else None)
            assert bits_of({name: pair[name] for name in NAMES}) == bits_of(vars(s) | {"smaller_size": s.smaller_size})


def stream(draw: Random, count: int, given_bits: bool) -> list[Item | Tombstone | BadItem]:
    """Articles, copies, versions, redeliveries, tombstones, bad items, wrong and late times, of three partitions."""
    items, out, clock = list[Item](), list[Item | Tombstone | BadItem](), 1_700_000_000_000
    for n in range(count):
        clock += draw.randrange(2 * HOUR) + (n == 2 * count // 3) * 60 * 24 * HOUR
        odd = [-1, clock + 90 * 24 * HOUR, clock - 90 * 24 * HOUR, clock - 200 * HOUR]
        time = draw.choice(odd) if draw.random() < 0.06 else clock - draw.randrange(5 * HOUR)
        chance, partition = draw.random(), draw.choice([0, 0, 0, 1, 2])
        if chance < 0.03:
            out.append(BadItem("json", "cut", f"{n}"))
            continue
        if chance < 0.08 and items:
            out.append(Tombstone(draw.choice(items[-30:]).id, time, partition, n))
            continue
        if chance < 0.6 and items:
            before = draw.choice(items[-25:])
            item = edited(draw, before, draw.choice([before.id, f"{n}", f"{n}"]), time)
        elif chance < 0.75:  # a form that is filled in again and again
            item = Item(f"{n}", f"Report {n % 40} of the council", FORM.format(n % 90), "forms.example", time)
        else:
            item = article(draw, draw.choice([f"{n}", f"{n}", f"{n % 7}"]), time)
        bits = None
        if given_bits:
            bits = draw.choice(items).fingerprint or 1 if items and chance < 0.7 else draw.randrange(2**64)
            for _ in range(draw.randrange(6)):
                bits ^= 1 << draw.randrange(64)
        item = Item(item.id, item.title, item.text, item.source, time, partition, n, bits)
        items.append(item)
        out.append(item)
    return out


def check(delta: Delta, reference: Stream) -> None:
    """What the changelog gets of a batch."""
    added, forgotten, clocks = reference.added, reference.forgotten, reference.clocks
    assert (delta.watermark, delta.elapsed) == (clocks.watermark, clocks.elapsed)
    assert delta.forgotten.tolist() == [(before, name) for name, before in forgotten.items()]
    assert delta.names() == [(one.item.id, one.story) for one in added]
    assert delta.keys.tolist() == [one.print.keys for one in added]
    assert delta.bodies == [one.print.stored_body for one in added if not reference.scheme.layout]
    assert delta.signatures["time"].tolist() == [one.moment.time for one in added]
    passages = [[p.hash for p in one.print.passages[:128]] if one.is_counted else [] for one in added]
    assert delta.passages.tolist() == [h for of_one in passages for h in of_one]
    assert delta.passage_counts.tolist() == [len(of_one) for of_one in passages]
    added.clear()
    forgotten.clear()


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(2))
def test_every_verdict_and_its_evidence_are_those_of_the_specification(name: str, seed: int) -> None:
    draw, settings = Random(f"{name}{seed}"), load_settings(**SETTINGS[name])
    items = stream(draw, 220, given_bits=name == "given")
    limit = 2 if name == "forward" else BUCKET_LIMIT
    reference, latest, start, told = Stream(settings, limit), 1_700_000_000_000 + 150 * 24 * HOUR, 0, set[str]()
    waiting, crowded, rules = 0, 0, set[str]()
    with Decider(settings) as dedup:
        dedup.index.bucket_limit = limit
        while start < len(items):
            part = items[start : start + draw.choice([1, 2, 7, 40, 90])]
            batch = dedup.judge(part, latest)
            dedup.apply(batch, pending=True)
            waiting += 1
            while waiting > 2 or (waiting and draw.random() < 0.3):
                dedup.confirm()
                waiting -= 1
            for item, verdict in zip(part, batch.verdicts, strict=True):
                assert verdict == reference.judge(item, latest), item
                told.add(f"{verdict.kind} {verdict.stage}")
                rules.add(rule_of(verdict.reason))
                crowded += verdict.evidence is not None and verdict.evidence.candidates == 12
            check(batch.delta, reference)
            start += len(part)
    assert len(told) >= 7, told
    assert rules - {""} == SETTINGS[name].get("sources", {}).keys()
    assert crowded > 10 or name != "default"
