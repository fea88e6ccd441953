"""Encode the verdicts about a range of the input as a block, and decode them for the publish workers.

The content of a block (see frame.py for what surrounds it):

    range of the input, offsets of all n items
    1 byte an item: 0, or 1 + kind · stages + stage of a verdict that is sent by these alone
    the other verdicts, in order: a msgpack array of arrays (`_Row`)

What is written to the output without evidence needs no more than its kind: originals and tombstones that are let
through. Their verdicts come back without id, original and evidence. Every other verdict comes back as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.errors import CorruptBlock
from stream_dedup.split.frame import InputRange, as_bytes, as_text, pack_range, seal, unpack_range, unseal

MAGIC = b"SDV1"
# A batch of the judge has some thousands.
MAX_VERDICTS = 1 << 17

_KINDS, _STAGES = list(Kind), list(Stage)
_KIND_NUMBERS = {kind: number for number, kind in enumerate(_KINDS)}
_STAGE_NUMBERS = {stage: number for number, stage in enumerate(_STAGES)}
# By kind, stage and `forward`.
_CODES = {
    (kind, stage, True): 1 + _KIND_NUMBERS[kind] * len(_STAGES) + _STAGE_NUMBERS[stage]
    for kind in (Kind.UNIQUE, Kind.TOMBSTONE)
    for stage in _STAGES
}
# One object serves all verdicts of a code, since a Verdict cannot change.
_OF_CODE = {code: Verdict("", *parts) for parts, code in _CODES.items()}

_Share: TypeAlias = float | None
_OriginalRow: TypeAlias = tuple[bytes, int, int, int]
# The fields of `Evidence`, in their order.
_EvidenceRow: TypeAlias = tuple[
    _Share, _Share, _Share, _Share, bool | None, str | None, str | None, int, int | None, _Share, _Share, _Share,
    bytes | None, str | None,
]  # fmt: skip
# Id, kind, stage, forward, original, evidence, reason. Strings from outside are bytes, since msgpack refuses lone
# surrogates.
_Row: TypeAlias = tuple[bytes, int, int, bool, _OriginalRow | None, _EvidenceRow | None, bytes]
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[_Row])


@dataclass(frozen=True, slots=True)
class VerdictBlock:
    """A decoded block: the range of the input, and the offsets and verdicts of all its items."""

    where: InputRange
    offsets: NDArray[np.int64]
    verdicts: list[Verdict]


def encode_verdicts(
    verdicts: Sequence[Verdict], offsets: Sequence[int] | NDArray[np.int64], where: InputRange, scheme_id: int
) -> bytes:
    """Encode the verdicts of the items at these offsets. O(bytes).

    Raises ValueError if the offsets do not ascend within `where`, or fit the verdicts.
    """
    places = np.asarray(offsets, np.int64)
    if len(places) != len(verdicts) or len(verdicts) > MAX_VERDICTS:
        raise ValueError(f"{len(verdicts)} verdicts with {len(places)} offsets; at most {MAX_VERDICTS} are allowed")
    codes = bytes([_CODES.get((verdict.kind, verdict.stage, verdict.forward), 0) for verdict in verdicts])
    rows = [_row(verdict) for verdict, code in zip(verdicts, codes, strict=True) if not code]
    return seal(MAGIC, scheme_id, [[*pack_range(where, places), codes, _ENCODER.encode(rows)]])


def decode_verdicts(block: bytes, scheme_id: int) -> VerdictBlock:
    """Decode one block. O(bytes).

    Raises CorruptBlock for a damaged block, SchemeMismatch for an intact block of another scheme.
    """
    content = unseal(block, MAGIC, scheme_id)
    where, offsets = unpack_range(content, MAX_VERDICTS)
    codes = content.take(len(offsets))
    try:
        rows = _DECODER.decode(content.rest())
        others = [_verdict(row) for row in rows]
    except (msgspec.DecodeError, UnicodeDecodeError, IndexError) as error:
        raise CorruptBlock(f"the verdicts of the block cannot be read: {error}") from None
    if len(others) != codes.count(0):
        raise CorruptBlock(f"the block has {len(others)} verdicts in full, and its codes demand {codes.count(0)}")
    remaining = iter(others)
    try:
        verdicts = [_OF_CODE[code] if code else next(remaining) for code in codes]
    except KeyError as error:
        raise CorruptBlock(f"the block has a verdict of an unknown code, {error}") from None
    return VerdictBlock(where, offsets, verdicts)


def _row(verdict: Verdict) -> _Row:
    original, evidence = verdict.original, verdict.evidence
    return (
        as_bytes(verdict.id),
        _KIND_NUMBERS[verdict.kind],
        _STAGE_NUMBERS[verdict.stage],
        verdict.forward,
        None if original is None else (as_bytes(original.id), original.time, original.partition, original.offset),
        None if evidence is None else _evidence_row(evidence),
        as_bytes(verdict.reason),
    )


def _verdict(row: _Row) -> Verdict:
    name, kind, stage, forward, original, evidence, reason = row
    if kind < 0 or stage < 0:
        raise CorruptBlock("a verdict of the block has an unknown kind or stage")
    return Verdict(
        as_text(name),
        _KINDS[kind],
        _STAGES[stage],
        forward,
        Original(as_text(original[0]), *original[1:]) if original is not None else None,
        _evidence(evidence) if evidence is not None else None,
        as_text(reason),
    )


def _evidence_row(evidence: Evidence) -> _EvidenceRow:
    *numbers, compared, new_against = msgspec.structs.astuple(evidence)
    return (*numbers, None if compared is None else as_bytes(compared), new_against)


def _evidence(row: _EvidenceRow) -> Evidence:
    compared = row[-2]
    fields = *row[:-2], None if compared is None else as_text(compared), row[-1]
    return Evidence(*fields)
