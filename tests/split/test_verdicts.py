"""Blocks of verdicts carry all that the outgoing records need."""

from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.errors import CorruptBlock, SchemeMismatch
from stream_dedup.settings import load_settings
from stream_dedup.split import verdicts as verdict_blocks
from stream_dedup.split.fingerprints import MAGIC as FINGERPRINTS_MAGIC
from stream_dedup.split.frame import InputRange, pack_range, seal
from stream_dedup.split.verdicts import MAGIC, decode_verdicts, encode_verdicts
from tests.split.feed import feed
from tests.stream.test_records import SHADOW, a_router, record

SCHEME = 0xFEDC_BA98_7654_3210
shares = st.none() | st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(exclude_categories=[]), max_size=9)  # lone surrogates too; Kafka's records have none
clean_words = st.text(max_size=9)
numbers = st.integers(-(2**63), 2**63 - 1)
evidence = st.builds(
    Evidence, shares, shares, shares, shares, st.none() | st.booleans(), st.none() | st.sampled_from(["shorter"]),
    st.none() | st.sampled_from(["numbers"]), st.integers(0, 99), st.none() | st.integers(0, 128), shares, shares,
    shares,
)  # fmt: skip


def verdicts_with(text: st.SearchStrategy[str]) -> st.SearchStrategy[Verdict]:
    originals = st.none() | st.builds(Original, text, numbers, numbers, numbers)
    parts = st.sampled_from(Kind), st.sampled_from(Stage), st.booleans(), originals, st.none() | evidence
    return st.builds(Verdict, text, *parts, text)


def where(count: int) -> InputRange:
    return InputRange("news.raw", "465bf025", 3, 0, 2 * count)


def block_of(given_verdicts: list[Verdict]) -> bytes:
    count = len(given_verdicts)
    return encode_verdicts(given_verdicts, range(0, 2 * count, 2), where(count), SCHEME)


def is_short(verdict: Verdict) -> bool:
    return verdict.forward and verdict.kind in (Kind.UNIQUE, Kind.TOMBSTONE)


@given(st.lists(verdicts_with(words), max_size=8))
def test_verdicts_come_back_except_for_what_the_output_does_not_show(made: list[Verdict]) -> None:
    block = decode_verdicts(block_of(made), SCHEME)
    assert block.where == where(len(made))
    assert block.offsets.tolist() == list(range(0, 2 * len(made), 2))
    for verdict, found in zip(made, block.verdicts, strict=True):
        assert found == (Verdict("", verdict.kind, verdict.stage, True) if is_short(verdict) else verdict)


@given(st.lists(verdicts_with(clean_words), min_size=1, max_size=8), st.booleans())
def test_the_outgoing_records_are_the_same(made: list[Verdict], is_shadow: bool) -> None:
    router = a_router(settings=SHADOW) if is_shadow else a_router()
    for verdict, found in zip(made, decode_verdicts(block_of(made), SCHEME).verdicts, strict=True):
        for with_value in (True, False):
            sent = list(router.routes(record(), found, 5, with_value))
            assert sent == list(router.routes(record(), verdict, 5, with_value))


@pytest.mark.parametrize("policy", [{}, {"updates": "drop"}, {"updates": "compare"}])
def test_the_outgoing_records_of_a_feed_are_the_same(policy: dict[str, str]) -> None:
    with Deduplicator(load_settings(policy=policy)) as dedup:
        made = dedup.judge([item for item in feed(1, 200) if "\ud800" not in getattr(item, "id", "")]).verdicts
    assert {verdict.kind for verdict in made} == set(Kind)
    found = decode_verdicts(block_of(made), SCHEME).verdicts
    for verdict, other in zip(made, found, strict=True):
        assert a_router().route(record(), other, 5) == a_router().route(record(), verdict, 5)


def test_an_original_takes_two_bytes() -> None:
    made = [Verdict(f"https://news.example/{n}", Kind.UNIQUE, Stage.NONE, True) for n in range(5000)]
    assert len(block_of(made)) < 2 * len(made)


def test_more_verdicts_than_a_reader_accepts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [Verdict("1", Kind.UNIQUE, Stage.NONE, True)] * 3
    block = block_of(made)
    monkeypatch.setattr(verdict_blocks, "MAX_VERDICTS", 2)
    with pytest.raises(ValueError, match="at most 2"):
        block_of(made)
    with pytest.raises(CorruptBlock, match="claims 3 items; at most 2"):
        decode_verdicts(block, SCHEME)


def test_offsets_that_do_not_fit_are_refused() -> None:
    made = [Verdict("1", Kind.UNIQUE, Stage.NONE, True)]
    for offsets in ([], [0, 1], [2], [-1]):
        with pytest.raises(ValueError, match="offsets"):
            encode_verdicts(made, offsets, where(1), SCHEME)


# -- damage --------------------------------------------------------------------------------------------


@cache
def sample() -> bytes:
    return block_of([
        Verdict("1", Kind.UNIQUE, Stage.NONE, True),
        Verdict("2", Kind.DUPLICATE, Stage.BODY, False, Original("1é", 5, 0, 9), Evidence(body=0.75, candidates=1)),
        Verdict("3", Kind.BAD, Stage.NONE, False, reason="json: no object"),
    ])  # fmt: skip


def test_any_changed_byte_is_corruption() -> None:
    for place in range(len(sample())):
        changed = bytearray(sample())
        changed[place] ^= 1 + place % 255
        with pytest.raises(CorruptBlock):
            decode_verdicts(bytes(changed), SCHEME)


def test_a_cut_block_is_corruption() -> None:
    for size in range(len(sample())):
        with pytest.raises(CorruptBlock):
            decode_verdicts(sample()[:size], SCHEME)


def row(**changes: object) -> list[object]:
    fields = {"id": b"2", "kind": 1, "stage": 5, "forward": False, "original": None, "evidence": None, "reason": b""}
    return list({**fields, **changes}.values())


@pytest.mark.parametrize(
    ("codes", "rows"),
    [
        (b"\0", []), (b"\1", [row()]), (b"\xff", []), (b"\0", [row(kind=5)]), (b"\0", [row(kind=-1)]),
        (b"\0", [row(stage=9)]), (b"\0", [row(id=b"\xff")]), (b"\0", [row(id="2")]), (b"\0", [row(forward=1)]),
        (b"\0", [row(original=[b"1", 2, 3])]), (b"\0", [row(original=[b"1", 2, 3, 4, 5])]),
        (b"\0", [row(evidence=[None] * 11)]), (b"\0", [row(evidence=[None] * 12)]), (b"\0", [row()[:6]]), (b"\0", {}),
    ],
)  # fmt: skip
def test_a_signed_block_with_other_content_is_corruption(codes: bytes, rows: object) -> None:
    content = [[*pack_range(where(1), np.zeros(1, np.int64)), codes, msgspec.msgpack.encode(rows)]]
    with pytest.raises(CorruptBlock):
        decode_verdicts(seal(MAGIC, SCHEME, content), SCHEME)


def test_a_block_of_another_scheme_or_topic_is_refused() -> None:
    with pytest.raises(SchemeMismatch, match=rf"{SCHEME:016x}.*{7:016x}"):
        decode_verdicts(sample(), 7)
    with pytest.raises(CorruptBlock, match="starts with b'SDF1', not b'SDV1'"):
        decode_verdicts(seal(FINGERPRINTS_MAGIC, SCHEME, [[b""]]), SCHEME)
