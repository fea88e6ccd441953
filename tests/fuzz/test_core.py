"""The core takes any text and any stored signature. test_sanitizers.py repeats this with a core that checks itself."""

import pytest

from tests.fuzz.core import FAMILIES, LARGEST, judge_mutants, judge_skewed, restore_mutants
from tests.fuzz.skewed import SKEWS


@pytest.mark.parametrize("family", FAMILIES)
def test_any_text_is_judged(family: str) -> None:
    passed = judge_mutants(FAMILIES[family], 38, 1500)
    assert 0 < passed < 1500, "mutants are near-duplicates of each other, and some are not"


@pytest.mark.parametrize("family", FAMILIES)
def test_any_stored_signature_is_judged_against_or_refused(family: str) -> None:
    assert restore_mutants(family, 38, 40) > 0


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_text_of_chosen_hashes_is_judged(family: str, skew: str) -> None:
    judge_skewed(family, skew, 6_000)


@pytest.mark.parametrize("skew", ["high", "low"])
def test_a_book_of_chosen_hashes_is_packed(skew: str) -> None:
    judge_skewed("minhash exact", skew, LARGEST)
