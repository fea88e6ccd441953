"""Stored changes that no Decider has made are refused, and nothing of them is applied."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stream_dedup.changelog import block
from stream_dedup.dedup.batch import Delta
from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import CorruptBlock, UsageError
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from tests.dedup.world import START

EXACT = load_settings(fingerprint={"verify": "exact"})
ITEMS = [Item(str(n), f"Bridge {n} opens", f"Text {n} of the bridge", "a.example", START + n) for n in range(20)]


@pytest.fixture(scope="module")
def delta() -> Delta:
    with Decider() as dedup:
        return dedup.judge(ITEMS).delta


def changed(array: Any, name: str, value: Any) -> Any:
    copy = array.copy()
    copy[name][0] = value
    return copy


def refused(dedup: Decider, delta: Delta, said: str) -> None:
    """Restoring the delta, as a block has it, is refused, and the memory is as before."""
    before = dedup.judge(ITEMS).verdicts
    stored = block.decode(block.encode(delta, dedup.scheme_id), dedup.scheme_id, dedup.scheme.signature_dtype)
    with pytest.raises(CorruptBlock, match=said):
        dedup.restore(stored)
    assert (len(dedup), len(dedup.index.export()[1]), dedup.elapsed) == (0, 0, 0)
    assert dedup.judge(ITEMS).verdicts == before


@pytest.mark.parametrize("value", [2**63 - 1, 2**62 + 1, -(2**63), -(2**62) - 1])
def test_times_whose_sums_need_more_than_64_bits_are_refused(delta: Delta, value: int) -> None:
    with Decider() as dedup:
        refused(dedup, replace(delta, elapsed=value), f"the elapsed time {value} ms")
        refused(dedup, replace(delta, watermark=value), f"the watermark {value} ms")
        for name in ("elapsed", "watermark"):
            refused(dedup, replace(delta, arrivals=changed(delta.arrivals, name, value)), f"{value} ms")
        clocks = delta.clocks.copy()
        clocks["times"][0, 3] = value
        refused(dedup, replace(delta, clocks=clocks), f"the time of a clock {value} ms")


@pytest.mark.parametrize(("name", "value"), [("count", -1), ("count", 2**63 - 1), ("weight", -1)])
def test_a_clock_of_an_impossible_number_of_items_is_refused(delta: Delta, name: str, value: int) -> None:
    with Decider() as dedup:
        refused(dedup, replace(delta, clocks=changed(delta.clocks, name, value)), "a clock")


def test_a_deletion_of_rows_that_come_later_is_refused(delta: Delta) -> None:
    forgotten = np.array([(21, 7)], delta.forgotten.dtype)
    with Decider() as dedup:
        refused(dedup, replace(delta, forgotten=forgotten), "21 of its rows")
        dedup.restore(replace(delta, forgotten=changed(forgotten, "before", 20)))


@pytest.mark.parametrize("name", ["signatures", "keys"])
def test_another_number_of_rows_than_ids_is_refused(delta: Delta, name: str) -> None:
    with Decider() as dedup, pytest.raises(CorruptBlock, match=f"a block of 20 ids has .*19 .*{name}"):
        dedup.restore(replace(delta, **{name: getattr(delta, name)[:19]}))


def test_another_number_of_bodies_is_refused() -> None:
    with Decider(load_settings(fingerprint={"family": "simhash"})) as plain, Decider(EXACT) as exact:
        delta = plain.judge(ITEMS).delta
        refused(plain, replace(delta, bodies=[b""] * len(delta)), "20 bodies; its scheme has none")
        refused(exact, replace(exact.judge(ITEMS).delta, bodies=[]), "0 bodies; its scheme has one a row")


def test_what_was_made_under_another_scheme_is_refused() -> None:
    with Decider() as one, Decider(load_settings(fingerprint={"shingles": "letters"})) as other:
        prepared = one.prepare(ITEMS)
        with pytest.raises(UsageError, match=f"prepared under fingerprint scheme {one.scheme_id:016x}"):
            other.judge(prepared)
        batch = one.judge(prepared)
        for pending in (True, False):
            with pytest.raises(UsageError, match="this batch was judged under fingerprint scheme"):
                other.apply(batch, pending=pending)
        assert len(other) == 0
        one.apply(batch)
