"""Parse publication dates into milliseconds since 1970, or say why a date cannot be read.

In: a string or a number from JSON. Out: an integer. Only unambiguous dates are accepted: a date that could mean two
days, or a time in an unknown zone, counts as no date and has a reason that is counted and reported. A date without an
offset is in UTC.
"""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

NO_TIME = -1
"""The event time of an item without a date."""

NOT_A_DATE = "not a date"
OUT_OF_RANGE = "out of range"
AMBIGUOUS = "day or month first"
UNKNOWN_ZONE = "unknown time zone"
REASONS = (NOT_A_DATE, OUT_OF_RANGE, AMBIGUOUS, UNKNOWN_ZONE)

# Digits have no other sign that they are a date, so they count only from March 1973 (a calendar's from 1970) to the end
# of 2049. Within, counts of s, ms, µs and ns since 1970 do not overlap.
_LAST_YEAR = 2049
_END = 2_524_608_000  # s: the year after
_UNITS = (  # (from, to, multiplier, divisor)
    (10**8, _END, 1000, 1), (10**11, _END * 10**3, 1, 1), (10**14, _END * 10**6, 1, 10**3),
    (10**17, _END * 10**9, 1, 10**6),
)  # fmt: skip
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z", re.ASCII)
_CALENDAR = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:\d{4}(?:\d\d)?)?\Z", re.ASCII)
# Length of a calendar date with minutes. As a number it could also be milliseconds in 1976, so only a string counts.
_MINUTES = 12
_MOST_DIGITS = 20  # int() refuses thousands of digits
# Forms that datetime.fromisoformat refuses: slashes, a space before the offset, a named offset.
_ISO = re.compile(
    r"(\d{4})[-/.](\d\d?)[-/.](\d\d?)(?:[T ]\s*(\d\d?:\d\d\S*))?\s*([A-Za-z]{1,5}|[+-]\d\d:?\d\d)?\Z", re.ASCII
)
# With dots the day comes first, as in 31.12.2024 14:05: all who write so do (German, Russian, Turkish and others). With
# slashes or hyphens it depends on the country.
_DOTTED = re.compile(
    r"(\d\d?)\.(\d\d?)\.(\d{4})(?:[, ]\s*(\d\d?:\d\d(?::\d\d)?)(?: Uhr)?)?\s*([A-Z]{2,5}|[+-]\d\d:?\d\d)?\Z", re.ASCII
)
_NUMERIC = re.compile(r"\d\d?([/.-])\d\d?\1\d{2,4}\b", re.ASCII)
_WORD = re.compile(r"[A-Za-z]+|[+-]\d\d:?\d\d\b|\d+(?::\d+)*(?:\.\d+)?|\S", re.ASCII)
_TIME = re.compile(r"(\d\d?):(\d\d)(?::(\d\d)(?:\.\d+)?)?\Z", re.ASCII)
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)\Z", re.ASCII)
_MONTHS = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11,
    "dec": 12, "january": 1, "february": 2, "march": 3, "april": 4, "june": 6, "july": 7, "august": 8, "september": 9,
    "sept": 9, "october": 10, "november": 11, "december": 12,
}  # fmt: skip
_DAY = re.compile(r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\Z")
# Only abbreviations with a single meaning: IST is used in India, Ireland and Israel; AST and others are ambiguous too.
_ZONES = {
    "Z": 0, "UT": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3,
    "MSK": 3, "HKT": 8, "SGT": 8, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13,
    "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}  # fmt: skip


def milliseconds_of(published: Any) -> int:
    """Parse a date into ms since 1970; NO_TIME if it is missing or unreadable.

    Accepts ISO 8601 (also GDELT's 20240101T120000Z), RFC 2822 and similar forms, 31.12.2024 14:05, calendar digits
    (20240101120000), and counts of s, ms, µs or ns since 1970; digits alone only up to 2049.

    >>> milliseconds_of("2024-01-01T00:00:00Z"), milliseconds_of(1704067200), milliseconds_of("soon")
    (1704067200000, 1704067200000, -1)
    """
    if published is None:
        return NO_TIME
    if type(published) is str and published[4:5] == "-":  # nearly all dates have this form
        with suppress(ValueError, OverflowError):
            return _after_1970(datetime.fromisoformat(published))
    return _read(published)[0]


def why_unreadable(published: Any) -> str | None:
    """Return one of REASONS, or None if the date is readable or missing.

    >>> why_unreadable("yesterday"), why_unreadable(1e30), why_unreadable("03/04/2024"), why_unreadable(None)
    ('not a date', 'out of range', 'day or month first', None)
    """
    is_missing = published is None or (isinstance(published, str) and not published.strip())
    return None if is_missing else _read(published)[1]


def _read(published: Any) -> tuple[int, str | None]:
    """The time, or NO_TIME and one of REASONS, which are the messages of the errors below."""
    try:
        if isinstance(published, (int, float)) and not isinstance(published, bool):
            return _of_number(published), None
        if isinstance(published, str):
            return _of_text(published.strip()), None
    except OverflowError:
        return NO_TIME, OUT_OF_RANGE
    except ValueError as error:  # those of Python: no such day, hour or number
        if str(error) in REASONS:
            return NO_TIME, str(error)
    return NO_TIME, NOT_A_DATE


def _of_text(text: str) -> int:
    if len(text) == _MINUTES and _CALENDAR.match(text):
        return _of_digits(text)
    if _NUMBER.match(text):
        digits = text.lstrip("+-").isdecimal()
        return _of_number(int(text) if digits and len(text) <= _MOST_DIGITS else float(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        if found := _ISO.match(text):
            year, month, day, clock, zone = found.groups()
        elif found := _DOTTED.match(text):
            day, month, year, clock, zone = found.groups()
        else:
            return _of_words(text)
        return _moment(int(year), int(month), int(day), clock or "00:00", zone, None)
    return _after_1970(moment)


def _of_number(number: int | float) -> int:
    if not 0 <= number < _UNITS[-1][1]:
        raise ValueError(NOT_A_DATE if number != number else OUT_OF_RANGE)
    digits = str(int(number))
    if number == int(number) and _CALENDAR.match(digits) and len(digits) != _MINUTES:
        return _of_digits(digits)
    for lowest, highest, multiply, divide in _UNITS:
        if lowest <= number < highest:
            return int(number * multiply) if divide == 1 else int(number // divide)
    raise ValueError(OUT_OF_RANGE)


def _of_digits(digits: str) -> int:
    if int(digits[:4]) > _LAST_YEAR:
        raise ValueError(OUT_OF_RANGE)
    form = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}[len(digits)]
    return _after_1970(datetime.strptime(digits, form))


def _after_1970(moment: datetime) -> int:
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if seconds < 0:
        raise ValueError(OUT_OF_RANGE)
    return int(seconds * 1000)


def _of_words(text: str) -> int:
    """Parse RFC 2822, RFC 850, asctime, and other dates with an English month, in any order; every part
    must be known.
    """
    if _NUMERIC.match(text):
        raise ValueError(AMBIGUOUS)
    numbers: list[str] = []
    month = clock = zone = half = None
    for found in _WORD.finditer(text):  # it ends at the first unknown word of a text that is no date
        word = found[0]
        low = word.lower()
        if low in _MONTHS and month is None:
            month = _MONTHS[low]
        elif low in ("am", "pm") and half is None:
            half = low
        elif ":" in word and word[0].isdigit() and clock is None:
            clock = word
        elif word[0] in "+-" and len(word) > 1 and zone in (None, "GMT", "UTC"):
            zone = word
        elif word.isdecimal() and len(numbers) < 2:
            numbers.append(word)
        elif _DAY.match(low) or word in ",-()" or low in ("at", "st", "nd", "rd", "th", "of", "t"):
            continue
        elif word.isalpha() and clock is not None and word.isupper():
            zone = zone or word
        else:
            raise ValueError(NOT_A_DATE)
    if month is None or len(numbers) != 2:
        raise ValueError(NOT_A_DATE)
    day, year = sorted(numbers, key=len) if len(numbers[0]) != len(numbers[1]) else numbers
    if len(day) > 2 or len(year) not in (2, 4):
        raise ValueError(NOT_A_DATE)
    # RFC 2822's rule for years of two digits.
    full = int(year) + ((2000 if int(year) < 50 else 1900) if len(year) == 2 else 0)
    return _moment(full, month, int(day), clock or "00:00", zone, half)


def _moment(year: int, month: int, day: int, clock: str, zone: str | None, half: str | None) -> int:
    found = _TIME.match(clock)
    if found is None:
        raise ValueError(NOT_A_DATE)
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return _after_1970(datetime(year, month, day, hour, minute, min(second, 59), tzinfo=_zone(zone)))


def _zone(name: str | None) -> timezone:
    if name is None:
        return UTC
    offset = _OFFSET.match(name)
    if offset:
        size = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-size if offset[1] == "-" else size)
    if name.upper() not in _ZONES:
        raise ValueError(UNKNOWN_ZONE)
    return timezone(timedelta(hours=_ZONES[name.upper()]))
