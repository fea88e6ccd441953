"""Compare the numbers in two texts, and find the word that marks the second one as a correction.

In: two strings. Out: `Figures`, for people who check a decision: a change from 38 to 83 million is one word in three
hundred, which no similarity shows and readers overlook. It takes no part in the decision. Pure, in bounded time.

Numbers are compared by value: 1,000, 1.000, 1 000 and 1000 are equal, and so are 38 %, 38% and 38 per cent, or 38
million, 38m and 38,000,000. A point or comma before three digits separates thousands. A decimal with three places is
misread by this rule, but equally in both texts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from rapidfuzz.distance import Indel

from stream_dedup.dedup.batch import _CHARACTERS as CHARACTERS
from stream_dedup.dedup.batch import _WORDS as WORDS
from stream_dedup.dedup.passages import word_key, word_spans

# Alignment is quadratic, as in passages.py.
_WORDS = 20_000
# Fewest tokens of a common run whose numbers are compared: all numbers are one token to the alignment, so at least one
# word next to a number must be common, too.
_MIN_RUN = 2
# The precision of `Decimal`; longer numbers are compared as written.
_DIGITS_AT_MOST = 28
_NUMBER = "#"

_SCALES = {
    **dict.fromkeys(("thousand", "tausend", "mille", "mil", "千"), 10**3),
    **dict.fromkeys(("万", "萬"), 10**4),
    **dict.fromkeys(
        ("mn", "mln", "mio", "million", "millions", "millionen", "millones", "millón", "milioni", "milhões"), 10**6
    ),
    **dict.fromkeys(("亿", "億"), 10**8),
    **dict.fromkeys(
        ("bn", "billion", "billions", "mrd", "milliarde", "milliarden", "milliard", "milliards", "miliardi"), 10**9
    ),
    **dict.fromkeys(("trillion", "trillions", "tn", "billionen"), 10**12),
}
# Only directly after the digits: separate letters mean metres, or nothing.
_LETTERS = {"k": 10**3, "m": 10**6, "b": 10**9}
_PERCENT = ("%", "％", "percent", "per cent", "pct", "prozent", "pour cent", "por ciento", "per cento")
# Not "G7" or "COVID19", which are names.
_DIGITS = re.compile(
    r"(?<![A-Za-z\d])(?:\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,'’٬٫:]\d+)*)"
)  # fmt: skip
_UNIT = re.compile(
    "(?:[" + "".join(_LETTERS) + r"]|[ \u00a0\u202f-]?(?:"
    + "|".join(sorted(map(re.escape, (*_SCALES, *_PERCENT)), key=len, reverse=True))
    + r"))(?![^\W\d_])",
    re.I,
)  # fmt: skip
# No word boundary is required after these.
_UNIT_OF_CHARACTERS = re.compile("[千万萬亿億]")
_CORRECTION = re.compile(rf"\b(?:{WORDS})\b|{CHARACTERS}", re.I)


@dataclass(frozen=True, slots=True)
class Figures:
    """Numbers as written in the texts, each once, in reading order.

    changed: (first, second) numbers at the same place; first, second: numbers of one text only; correction: the word
    that marks the second text as a correction, "" if there is none or the first text has one too.
    """

    changed: tuple[tuple[str, str], ...]
    first: tuple[str, ...]
    second: tuple[str, ...]
    correction: str

    def as_json(self) -> dict[str, Any]:
        return {
            "changed": [{"first": first, "second": second} for first, second in self.changed],
            "first": list(self.first),
            "second": list(self.second),
            "correction": self.correction,
        }


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, or a number with its value ("" for a word) and its text."""

    key: str
    value: str = ""
    text: str = ""


def compare_figures(first: str, second: str) -> Figures:
    """The numbers in which two texts differ.

    >>> found = compare_figures("Bridge costs 38 million, 5 % more", "(Corrected) Bridge costs 83 million, 5% more")
    >>> found.changed, found.first, found.second, found.correction
    ((('38 million', '83 million'),), (), (), 'Corrected')
    """
    a, b = list(_tokens(first)), list(_tokens(second))
    changed: dict[tuple[str, str], tuple[str, str]] = {}  # by value
    for code in Indel.opcodes([token.key for token in a], [token.key for token in b]):
        if code.tag != "equal" or code.src_end - code.src_start < _MIN_RUN:
            continue
        pairs = zip(a[code.src_start : code.src_end], b[code.dest_start : code.dest_end], strict=True)
        for token, counterpart in pairs:
            if token.value != counterpart.value:
                changed.setdefault((token.value, counterpart.value), (token.text, counterpart.text))
    changed_values = {value for pair in changed for value in pair}
    marked_before = _CORRECTION.search(first)
    marked_now = _CORRECTION.search(second)
    return Figures(
        tuple(changed.values()),
        _only_in(a, b, changed_values),
        _only_in(b, a, changed_values),
        marked_now[0] if marked_now and not marked_before else "",
    )


def _only_in(tokens: list[_Token], other_tokens: list[_Token], changed_values: set[str]) -> tuple[str, ...]:
    known = {token.value for token in other_tokens} | changed_values | {""}
    found: dict[str, str] = {}
    for token in tokens:
        if token.value not in known:
            found.setdefault(token.value, token.text)
    return tuple(found.values())


def _tokens(text: str) -> Iterator[_Token]:
    """Words and numbers in reading order, at most 20,000."""
    numbers = _numbers(text)
    number = next(numbers, None)
    for count, (start, stop) in enumerate(word_spans(text).tolist()):
        if count == _WORDS:
            return
        while number and number[1] <= start:
            yield number[2]
            number = next(numbers, None)
        if not number or stop <= number[0]:
            yield _Token(word_key(text[start:stop]))
    if number:
        yield number[2]


def _numbers(text: str) -> Iterator[tuple[int, int, _Token]]:
    """(start, stop, number) of each number."""
    for match in _DIGITS.finditer(text):
        stop, scale, percent = match.end(), 1, ""
        unit = _UNIT_OF_CHARACTERS.match(text, stop) or _UNIT.match(text, stop)
        if unit:
            word = unit[0].strip(" \u00a0\u202f-").lower()
            scale, percent = (_SCALES | _LETTERS).get(word, 1), "%" if word in _PERCENT else ""
            stop = unit.end()
        value = _value(match[0])
        value_key = match[0] if value is None else f"{(value * scale).normalize()}"
        yield match.start(), stop, _Token(_NUMBER, value_key + percent, text[match.start() : stop])


def _value(digits: str) -> Decimal | None:
    """The value of a number's digits; None for a time of day, a score, or more digits than `Decimal` keeps.

    >>> [str(_value(text)) for text in ("1,000", "1.000", "1 000", "1.5", "1,5", "1,234.50", "1.234,50", "0.125")]
    ['1000', '1000', '1000', '1.5', '1.5', '1234.50', '1234.50', '0.125']
    """
    if ":" in digits or len(digits) > _DIGITS_AT_MOST:
        return None
    plain = re.sub("[ \u00a0\u2009\u202f'’٬]", "", digits).replace("٫", ".")
    marks = re.findall("[.,]", plain)
    if marks and (len(set(marks)) > 1 or _is_decimal(plain, marks[-1])):
        whole, _, places = plain.rpartition(marks[-1])
        plain = re.sub("[.,]", "", whole) + "." + places
    else:
        plain = re.sub("[.,]", "", plain)
    try:
        return Decimal(plain)
    except InvalidOperation:
        return None


def _is_decimal(plain: str, mark: str) -> bool:
    """Whether `mark`, the only kind in the number, is a decimal point."""
    whole, *groups = plain.split(mark)
    return len(groups) == 1 and (len(groups[0]) != 3 or not 1 <= len(whole) <= 3 or whole.startswith("0"))
