"""Mutants for the compiled core: items of any text, judged under each family, and stored signatures of each.

Items come in batches of many sizes and meet near-duplicates of themselves. The index grows, merges and begins anew.
"""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stream_dedup import Item
from stream_dedup.changelog import block
from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import CorruptBlock, SchemeMismatch
from stream_dedup.settings import load_settings
from tests.fuzz.hostile import PIECES
from tests.fuzz.loop import Mutator, Target, run
from tests.fuzz.records import NOW
from tests.fuzz.skewed import SKEWS, skewed_text

FAMILIES: dict[str, Mapping[str, Any]] = {
    "minhash": {},
    "minhash exact": {"verify": "exact"},
    "minhash letters": {"shingles": "letters"},
    "simhash": {"family": "simhash"},
    "simhash near tables": {"family": "simhash", "hamming": 6},
}
_BATCHES = (1, 2, 7, 40, 500)
# The index begins anew after this number of items. It has merged some times by then.
_MOST_ITEMS = 20_000
LARGEST = 1_500_000
"""Words of the largest text of chosen hashes: a packed set of them takes more than most bytes a member."""
# A block takes as long as a hundred items.
_BLOCKS = 100

_HEADLINE = "Bridge over the Elm opens"
_BODY = """The new bridge over the Elm opened on Monday, 12 May 2024, the mayor said. It cost 4.5 million euros.
Some 1,200 people came. "It was about time", said Anna Berg (67), who has lived here since 1981.
The old bridge had been closed after a flood in March, in which two people died."""
_BODIES = (
    *(_BODY, _BODY[:150], _BODY.replace("two people", "three people"), _BODY + " The mayor thanked all.", ""),
    *("大桥今天开通了。市长说，这座桥花了两年时间。", "افتتح الجسر الجديد يوم الاثنين.", "समाचार आज पुल खुला।"),
)
_PART = b"\x1f"
_SEEDS = [text.encode() for body in _BODIES for text in (f"{_HEADLINE}\x1f{body}", f"{body[:9]}\x1f{body}")]
_TOKENS = [_PART, *(text.encode("utf-8", "surrogatepass") for text in PIECES.values()), b"\xed\xa0\x80", b"\xff"]


def judge_mutants(fingerprint: Mapping[str, Any], seed: int, count: int) -> int:
    """Judge `count` mutants of items, or some more; return how many were let through."""
    settings, mutant, pick = (
        load_settings(fingerprint=dict(fingerprint)),
        Mutator(seed, _SEEDS, _TOKENS),
        random.Random(seed),
    )
    judged = passed = 0
    while judged < count:
        with Decider(settings) as dedup:
            end = min(count, judged + _MOST_ITEMS)
            while judged < end:
                items = []
                for _ in range(pick.choice(_BATCHES)):
                    headline, _, text = mutant().partition(_PART)
                    name, judged = f"{judged}", judged + 1
                    words = (part.decode("utf-8", "surrogateescape") for part in (headline[:1000], text))
                    items.append(Item(name, *words, f"{judged % 3}.example", NOW + judged))
                batch = dedup.judge(items)
                assert len(batch.verdicts) == len(items)
                dedup.apply(batch)
                passed += len(batch.delta)
    return passed


class _Restoring:
    """Restores signatures that say anything, and judges against them what they were made of."""

    def __init__(self, fingerprint: Mapping[str, Any]) -> None:
        self._settings = load_settings(fingerprint=dict(fingerprint))
        self._items = [
            Item(f"id {n}", f"{_HEADLINE} {n}", text, "a.example", NOW + n) for n, text in enumerate(_BODIES)
        ]
        with Decider(self._settings) as dedup:
            self._scheme, self._dtype = dedup.scheme_id, dedup.scheme.signature_dtype
            self._delta = dedup.judge(self._items).delta
        self.seed = self._delta.signatures.tobytes()

    def __call__(self, data: bytes) -> None:
        """`data`: bytes in place of those of the signatures."""
        raw = bytearray(self.seed)
        raw[: len(data)] = data[: len(raw)]
        damaged = replace(self._delta, signatures=np.frombuffer(raw, self._dtype))
        delta = block.decode(block.encode(damaged, self._scheme), self._scheme, self._dtype)
        with Decider(self._settings) as dedup:
            dedup.restore(delta)
            batch = dedup.judge(self._items)
            assert len(batch.verdicts) == len(self._items)
            dedup.apply(batch)
            dedup.catch_up()


def restore_mutants(family: str, seed: int, count: int) -> int:
    """Restore `count` mutants of the signatures of a family; return how many were accepted."""
    restore = _Restoring(FAMILIES[family])
    pieces = [b"\xff" * 8, b"\0" * 8, b"\xff" * 40]
    return run(Target(f"core: {family}", [restore.seed], pieces, restore, (CorruptBlock, SchemeMismatch)), seed, count)[
        1
    ]


def judge_skewed(family: str, skew: str, words: int) -> None:
    """Judge a text of chosen hashes twice, as a new one and as a copy."""
    with Decider(load_settings(fingerprint=dict(FAMILIES[family]))) as dedup:
        text = skewed_text(skew, words, dedup.scheme.token_seed)
        for name, kind in (("1", "unique"), ("2", "duplicate")):
            batch = dedup.judge(
                [Item(name, _HEADLINE, text, "a.example", NOW), Item(f"{name}x", "a b", "c d e", "", NOW)]
            )
            assert str(batch.verdicts[0].kind) == kind
            stored = block.encode(batch.delta, dedup.scheme_id)
            assert len(block.decode(stored, dedup.scheme_id, dedup.scheme.signature_dtype)) == len(batch.delta)
            dedup.apply(batch)


def mutants(seed: int, count: int = 120_000) -> int:
    """Put `count` mutants into the core, as many of each family, and texts of chosen hashes; return their number."""
    share, skews, skewed = count // len(FAMILIES) + 1, [*SKEWS], 0
    for family, fingerprint in FAMILIES.items():
        judge_mutants(fingerprint, seed, share)
        restore_mutants(family, seed, share // _BLOCKS)
        # In turn: a text of 1.5 million words takes seconds.
        judge_skewed(family, skews[seed % len(skews)], LARGEST if family == "minhash exact" else LARGEST // 50)
        skewed += 2
    return share * len(FAMILIES) + share // _BLOCKS * len(FAMILIES) + skewed
