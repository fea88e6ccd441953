"""The core takes any text and any stored signature. test_sanitizers.py repeats this with a core that checks itself."""

import pytest

from tests.fuzz.core import FAMILIES, judge_mutants, restore_mutants


@pytest.mark.parametrize("family", FAMILIES)
def test_any_text_is_judged(family: str) -> None:
    passed = judge_mutants(FAMILIES[family], 38, 1500)
    assert 0 < passed < 1500, "mutants are near-duplicates of each other, and some are not"


@pytest.mark.parametrize("family", FAMILIES)
def test_any_stored_signature_is_judged_against_or_refused(family: str) -> None:
    assert restore_mutants(family, 38, 40) > 0
