"""The planner's predictions agree with measurements."""

import gc
import weakref
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.fingerprint.simhash import layout
from stream_dedup.index import runs
from stream_dedup.index.footprint import ROWS_OF_AN_INDEX, Footprint, footprint, peak_bytes, table_bytes
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.rows import RowStore
from stream_dedup.index.runs import Run
from stream_dedup.index.times import AliveMask
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings
from stream_dedup.tools.evaluate.planner import (
    MOST_FINGERPRINTS,
    UNRELATED,
    Traffic,
    anchored,
    bit_difference,
    evaluate,
    proposed,
    recall_at,
)
from tests.fingerprint.built import distances
from tests.index.check import merge
from tests.reference.fingerprint import packed as pack

DEFAULT = FingerprintSettings()


def test_whole_bodies_take_the_bytes_that_were_planned() -> None:
    rows, exact = 2_000, DEFAULT.model_copy(update={"verify": "exact"})
    made = evaluate(Traffic(rows, 12, 300), exact)
    random = np.random.default_rng(1)
    packed = [pack(random.integers(0, 2**64, 300, np.uint64).tolist()) for _ in range(rows)]
    sketched = evaluate(Traffic(rows, 12, 300), DEFAULT)
    sets = made.body_bytes - sketched.body_bytes
    assert sum(map(len, packed)) / rows == pytest.approx(sets, rel=0.01)
    assert made.takes.bytes_per_item - sketched.takes.bytes_per_item == pytest.approx(sets - 64)


# -- recall -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shared", "first", "second"), [(60, 120, 120), (120, 180, 180), (150, 0, 600), (60, 60, 480)], ids=str
)
def test_anchors_are_shared_as_often_as_planned(shared: int, first: int, second: int) -> None:
    """Sets of hashes with so many common members, and members of one alone."""
    for count in (4, 16):
        found, pairs, random = 0, 500, np.random.default_rng(3)
        for _ in range(pairs):
            both, *alone = (np.sort(random.integers(1, 2**64, size, np.uint64)) for size in (shared, first, second))
            found += bool(np.intersect1d(*(np.sort(np.concatenate([both, own]))[:count] for own in alone)).size)
        jaccard, split = shared / (shared + first + second), first / (first + second)
        assert found / pairs == pytest.approx(float(anchored(jaccard, count, split)), abs=0.05)


def edited_articles(changed: Callable[[], NDArray[np.bool_]]) -> list[list[Item]]:
    """400 articles of random words, and the same with other words where they are changed."""
    random, articles = np.random.default_rng(1), []
    for n in range(400):
        is_changed = changed()
        text = [f"w{number}" for number in random.integers(0, 10**9, len(is_changed))]
        edited = np.where(is_changed, [f"x{word}" for word in text], text)
        articles.append([Item(f"{n}", "", " ".join(words), "", 0) for words in (text, edited)])
    return [list(items) for items in zip(*articles, strict=True)]


def test_an_article_with_words_changed_here_and_there_is_found_as_often_as_planned() -> None:
    """The Jaccard of its long shingles follows from that of its short ones."""
    make, random = Fingerprinter(Scheme(DEFAULT)), np.random.default_rng(1)
    firsts, seconds = edited_articles(lambda: random.random(400) < 0.17)
    jaccards = []
    for first, second in zip(firsts[:50], seconds[:50], strict=True):
        a, b = make.exact(first).body, make.exact(second).body
        jaccards.append(len(a & b) / len(a | b))
    keys = [make(items).keys[:, :16] for items in (firsts, seconds)]
    found = np.mean([np.intersect1d(a, b).size > 0 for a, b in zip(*keys, strict=True)])
    assert np.mean(jaccards) == pytest.approx(0.4, abs=0.05)
    assert found == pytest.approx(float(proposed(np.mean(jaccards), make.scheme)), abs=0.04)


def test_the_footprint_is_what_the_arrays_take() -> None:
    """At rest: signature, keys, row numbers and directories of the tables, time, id and the end of the id."""
    random = np.random.default_rng(4)
    for changes in ({}, {"family": "simhash"}):
        scheme = Scheme(DEFAULT.model_copy(update=changes))
        index, rows = HybridIndex(scheme.table_of, background=False), RowStore(scheme.signature_dtype)
        n = 70_000
        index.add(random.integers(1, 2**32, (n, scheme.key_columns), np.uint32), np.zeros(n, np.int64))
        merge(index)
        rows.append(np.zeros(n, scheme.signature_dtype), [f"{i:024x}" for i in range(n)])
        held = index._tiers.runs[0].nbytes + 8 * n + sum(rows.parts())
        assert footprint(scheme, n, 24).bytes_per_item * n == pytest.approx(held, rel=0.01)


@pytest.mark.parametrize("batch", [50, 300])
def test_merges_never_take_more_than_was_planned(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window slides over six times its originals; a merge writes its run while the replaced ones still exist."""
    window, tables, highest = 20_000, 6, 0
    index = HybridIndex(range(tables), background=False)
    merged = runs._merged

    def counted(runs: Sequence[Run], alive: AliveMask) -> tuple[Run, float]:
        nonlocal highest
        made = merged(runs, alive)
        highest = max(highest, sum(run.nbytes for run in index._tiers.runs) + made[0].nbytes)
        return made

    monkeypatch.setattr(runs, "_merged", counted)
    random = np.random.default_rng(1)
    for now in range(0, 6 * window, batch):
        index.add(random.integers(1, 2**32, (batch, tables), np.uint32), np.arange(now, now + batch))
        if now % (window // 64) < batch:
            index.expire(now + batch - window)
    takes = Footprint(0, tables, table_bytes(window), 0.0, tables * table_bytes(window))
    assert 2 * takes.bytes_per_item * window < highest < peak_bytes(window, takes)


def test_a_restored_block_is_let_go_of_while_its_keys_wait() -> None:
    """Otherwise a restore would hold all signatures twice: 1,220 MiB for a million originals instead of 830."""
    whole = np.ones(100_000, np.uint32)
    block = weakref.ref(whole)
    index = HybridIndex(range(4), background=False)
    index.add(whole[:400].reshape(4, 100).T, np.arange(100), defer_sort=True)
    del whole
    gc.collect()
    assert index.unsorted_rows == 100
    assert block() is None


# -- SimHash and given fingerprints ------------------------------------------------------------------------------------

SIMHASH = FingerprintSettings(family="simhash")
GIVEN = FingerprintSettings(family="given")


def within_bits(hamming: int, settings: FingerprintSettings = SIMHASH) -> FingerprintSettings:
    return settings.model_copy(update={"hamming": hamming})


def fingerprints_around_the_last(count: int, difference: float) -> NDArray[np.uint64]:
    """Fingerprints that differ from the last one in each bit with this probability."""
    bits = np.random.default_rng(5).random((count, 64)) < difference
    bits[-1] = False
    # Not around 0: keys of zeros match one bit further (Nearness).
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)[:, 0] ^ np.uint64(0x9E3779B97F4A7C15)


def proposed_by_the_index(prints: NDArray[np.uint64], hamming: int, queries: int) -> float:
    """Distinct rows an index of these fingerprints proposes for one of `queries` others, on average."""
    tables = layout(hamming)
    index = HybridIndex(
        range(tables.tables), background=False, dont_care_bits=tables.dont_care_bits, max_hamming=hamming
    )
    rows = len(prints) - queries
    index.add(tables.keys(prints[:rows]), np.zeros(rows, np.int64))
    found = index.lookup(tables.keys(prints[rows:]), np.zeros(queries, np.int64), limit=rows)[1]
    index.close()
    return len(found) / queries


@pytest.mark.parametrize("hamming", [4, 6])
def test_an_index_proposes_as_many_candidates_as_planned(hamming: int) -> None:
    rows, queries = 60_000, 4_000
    made = evaluate(Traffic(rows), within_bits(hamming, GIVEN))
    uniform = np.random.default_rng(5).integers(0, 2**64, rows + queries, np.uint64)
    measured = proposed_by_the_index(uniform, hamming, queries)
    # Five standard errors of a count of candidates, and what tables that share bits propose twice.
    assert measured == pytest.approx(made.false_candidates, rel=0.03, abs=5 * (made.false_candidates / queries) ** 0.5)


def test_pairs_that_are_alike_give_the_candidates_of_their_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, difference = 40_000, 0.25
    prints = fingerprints_around_the_last(rows + 1, difference)
    monkeypatch.setitem(UNRELATED, "shingles", ((difference, 1.0),))
    made = evaluate(Traffic(rows), within_bits(6))
    assert made.false_candidates > 1_000 * evaluate(Traffic(rows), within_bits(6, GIVEN)).false_candidates
    measured = proposed_by_the_index(prints, 6, 1)
    # Tables share bits, so a pair that matches in one matches in others more often: the plan overstates.
    assert 0.5 * made.false_candidates < measured < 1.05 * made.false_candidates


@pytest.mark.parametrize("jaccard", [0.8, 0.95])
def test_bodies_of_a_jaccard_are_as_far_apart_as_planned(jaccard: float) -> None:
    """Bodies of random words, of which the last ones are replaced: the shingles of these alone differ."""
    words = 300
    kept = words - round((words - 2) * (1 - jaccard) / (1 + jaccard))
    firsts, seconds = edited_articles(lambda: np.arange(words) >= kept)
    make = Fingerprinter(Scheme(SIMHASH))
    apart = distances(make(firsts).signatures["simhash"], make(seconds).signatures["simhash"])
    assert apart.mean() / 64 == pytest.approx(bit_difference(jaccard), abs=0.01)
    for hamming in (3, 6):
        assert (apart <= hamming).mean() == pytest.approx(recall_at(jaccard, within_bits(hamming)), abs=0.08)


def test_fingerprints_of_others_have_no_recall() -> None:
    found = evaluate(Traffic(1_000_000), GIVEN)
    assert (found.recall, found.curve) == (None, [])


def test_the_plan_goes_to_2_34_fingerprints() -> None:
    few, many = (evaluate(Traffic(items), SIMHASH) for items in (10**6, MOST_FINGERPRINTS))
    # 32 bits of a hash and 2^34 others: each table proposes four by chance alone.
    assert many.false_candidates > 4 * (many.takes.keys - 2)
    assert table_bytes(ROWS_OF_AN_INDEX) == pytest.approx(8.5, abs=0.5)
    assert many.takes.bytes_per_item == pytest.approx(few.takes.bytes_per_item, rel=0.02)
