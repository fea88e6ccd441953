"""Number words and negations of many languages are recognised; a number word is the same token as its digits."""

import numpy as np
import pytest

from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.kernel import FIGURE, NEGATION, NO_TRAIT, NUMBER_WORD
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import FingerprintSettings

MAKE = Fingerprinter(Scheme(FingerprintSettings()))


def traits(text: str) -> list[int]:
    tokens = MAKE.tokens(text)
    return list(tokens.kept["traits"][: tokens.count])


def hashes(text: str) -> list[int]:
    tokens = MAKE.tokens(text)
    return list(tokens.kept["hashes"][: tokens.count])


@pytest.mark.parametrize(
    "word", ["twelve", "Zwölf", "douze", "doce", "dodici", "двенадцать", "δώδεκα", "tizenkettő", "doze"]
)
def test_a_number_word_is_the_token_of_its_digits(word: str) -> None:
    assert traits(word) == [NUMBER_WORD]
    assert hashes(word) == hashes("12")


@pytest.mark.parametrize(
    "word", ["not", "no", "nicht", "pas", "não", "не", "nie", "değil", "नहीं", "ikke", "không", "不", "nem"]
)
def test_a_negation_is_one(word: str) -> None:
    assert traits(word) == [NEGATION]


@pytest.mark.parametrize("word", ["5", "12th", "L4471B", "١٢", "3,000"])
def test_what_has_a_digit_is_a_figure(word: str) -> None:
    assert set(traits(word)) == {FIGURE}


@pytest.mark.parametrize("word", ["bridge", "on", "the", "Brücke", "мост", "桥"])
def test_other_words_have_no_trait(word: str) -> None:
    assert traits(word) == [NO_TRAIT]


@pytest.mark.parametrize("word", ["nach", "dort", "he", "one", "bin", "на", "छ", "मत"])
def test_a_word_that_is_common_as_something_else_in_another_language_has_no_trait(word: str) -> None:
    assert traits(word) == [NO_TRAIT]


def test_with_a_salt_the_same_words_are_found() -> None:
    make = Fingerprinter(Scheme(FingerprintSettings(salt="a secret of the newsroom")))
    tokens = make.tokens("Twelve were not hurt")
    assert list(tokens.kept["traits"][: tokens.count]) == [NUMBER_WORD, NO_TRAIT, NEGATION, NO_TRAIT]
    assert tokens.kept["hashes"][0] != np.uint64(hashes("twelve")[0])
