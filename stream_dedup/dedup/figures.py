"""Two texts -> the numbers in which they differ, and whether the later one says that it corrects something.

In: two strings as a reader sees them. Out: `Figures`. Why: 38 million that became 83 million is one word in three
hundred; no similarity sees it, and a reader's eye hardly does. Pure, in bounded time. It decides nothing.

Numbers are compared by value, however they are written: 1,000, 1.000, 1 000 and 1000 are one number, so are 38 %, 38%
and 38 per cent, and 38 million, 38m and 38,000,000. A point or comma before three digits parts thousands; the rule is
the same for both texts, so a decimal with three places that is read as thousands still is one number in both.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from rapidfuzz.distance import Indel

from stream_dedup.dedup.corrections import CHARACTERS, WORDS
from stream_dedup.dedup.passages import word_key, word_spans

# Alignment is quadratic, as in passages.py.
_WORDS = 20_000
# The longest common subsequence of two strange texts aligns any number with any other; one word beside it that is the
# same in both says that the same thing was counted.
_RUN = 2
# As many as `Decimal` keeps; what is longer is compared as it is written.
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
# Letters that mean metres, or nothing, where they stand apart.
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
# Behind the Chinese scales a word goes on.
_UNIT_OF_CHARACTERS = re.compile("[千万萬亿億]")
_CORRECTION = re.compile(rf"\b(?:{WORDS})\b|{CHARACTERS}", re.I)


@dataclass(frozen=True, slots=True)
class Figures:
    """Numbers as each text writes them, each once, in reading order.

    changed: (in the first, in the second) at the same place; first, second: values that stand in one text alone;
    correction: the word by which the second says that it corrects, "" if the first says it too or neither does.
    """

    changed: tuple[tuple[str, str], ...]
    first: tuple[str, ...]
    second: tuple[str, ...]
    correction: str

    def as_json(self) -> dict[str, Any]:
        return {
            "changed": [{"first": one, "second": other} for one, other in self.changed],
            "first": list(self.first),
            "second": list(self.second),
            "correction": self.correction,
        }


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, or a number (`value`: what it is worth, "" for a word) as it is written."""

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
    changed: dict[tuple[str, str], tuple[str, str]] = {}  # by value, so that each is told once
    for code in Indel.opcodes([one.key for one in a], [one.key for one in b]):
        if code.tag != "equal" or code.src_end - code.src_start < _RUN:
            continue
        pairs = zip(a[code.src_start : code.src_end], b[code.dest_start : code.dest_end], strict=True)
        for one, other in pairs:
            if one.value != other.value:
                changed.setdefault((one.value, other.value), (one.text, other.text))
    told = {value for pair in changed for value in pair}
    said_before = _CORRECTION.search(first)
    says_now = _CORRECTION.search(second)
    return Figures(
        tuple(changed.values()),
        _alone(a, b, told),
        _alone(b, a, told),
        says_now[0] if says_now and not said_before else "",
    )


def _alone(these: list[_Token], others: list[_Token], told: set[str]) -> tuple[str, ...]:
    known = {one.value for one in others} | told | {""}
    found: dict[str, str] = {}
    for one in these:
        if one.value not in known:
            found.setdefault(one.value, one.text)
    return tuple(found.values())


def _tokens(text: str) -> Iterator[_Token]:
    """Words and numbers in reading order, at most 20,000."""
    numbers = _numbers(text)
    number = next(numbers, None)
    for count, (start, stop) in enumerate(word_spans(text)):
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
    """(start, stop, number) of each."""
    for found in _DIGITS.finditer(text):
        stop, scale, percent = found.end(), 1, ""
        unit = _UNIT_OF_CHARACTERS.match(text, stop) or _UNIT.match(text, stop)
        if unit:
            word = unit[0].strip(" \u00a0\u202f-").lower()
            scale, percent = (_SCALES | _LETTERS).get(word, 1), "%" if word in _PERCENT else ""
            stop = unit.end()
        value = _value(found[0])
        worth = found[0] if value is None else f"{(value * scale).normalize()}"
        yield found.start(), stop, _Token(_NUMBER, worth + percent, text[found.start() : stop])


def _value(digits: str) -> Decimal | None:
    """What the digits are worth; None for a time of day, a score, or more digits than anything has.

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
    """Whether the only mark there is parts the decimals."""
    whole, *groups = plain.split(mark)
    return len(groups) == 1 and (len(groups[0]) != 3 or not 1 <= len(whole) <= 3 or whole.startswith("0"))
