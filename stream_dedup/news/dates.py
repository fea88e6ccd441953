"""Parse publication dates into milliseconds since 1970, or say why a date cannot be read.

Only unambiguous dates are accepted. A date that could mean two days, or a time in an unknown zone, counts as no date,
and its reason is counted and reported. A date without an offset is in UTC.

Python reads ISO 8601. Any other date is read by its parts, in any order; dateparser supplies the words of other
languages. Its own parser takes a millisecond a date and reads 9 of the 31 doubtful dates of the tests as some day;
dateutil reads 15 of them.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

NO_TIME = -1
"""The event time of an item without a date."""

NOT_A_DATE = "not a date"
OUT_OF_RANGE = "out of range"
AMBIGUOUS = "day or month first"
UNKNOWN_ZONE = "unknown time zone"
NO_LANGUAGES = "a word of another language, without the extra `files`"
TICKS = "ticks of .NET or Windows, or nanoseconds of 1974 or 1990"
REASONS = (NOT_A_DATE, OUT_OF_RANGE, AMBIGUOUS, UNKNOWN_ZONE, TICKS, NO_LANGUAGES)
NO_VALUES = frozenset(
    ("nan", "NaN", "NAN", "-nan", "-NaN", "None", "none", "null", "NULL", "Null", "N/A", "n/a", "#N/A", "NA", "<NA>",
    "NaT", "nil", "\\N", "-", "--"),
)  # fmt: skip
"""What tools write for a missing value: mostly those that pandas reads as missing, and MySQL's."""

# Nothing else shows that digits are a date, so they count only from March 1973 (calendar digits from 1970) to the end
# of 2049. In this range counts of s, ms, µs and ns since 1970 do not overlap.
_LAST_YEAR = 2049
_END = 2_524_608_000  # s: the year after
_UNITS = (  # (from, to, multiplier, divisor)
    (10**8, _END, 1000, 1), (10**11, _END * 10**3, 1, 1), (10**14, _END * 10**6, 1, 10**3),
    (10**17, _END * 10**9, 1, 10**6),
)  # fmt: skip
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z", re.ASCII)
_CALENDAR = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:\d{4}(?:\d\d)?)?\Z", re.ASCII)
# Tenths of microseconds since the year 1 (.NET) or 1601 (Windows' FILETIME): s from there to 1970. The range of news.
_TICK_EPOCHS, _TICKS_A_SECOND, _FIRST_TICK = (62_135_596_800, 11_644_473_600), 10**7, 631_152_000  # 1990
_MOST_DIGITS = 20  # int() refuses thousands of digits
# RFC 2822, the form of most feeds. Reading it by its parts would take ten times as long.
_RFC = re.compile(
    r"(?:[A-Z][a-z]{2}, )?(\d\d?) ([A-Z][a-z]{2}) (\d{4}) ([01]\d|2[0-3]):(\d\d):([0-5]\d) "
    r"(?:GMT|([+-])(\d\d)(\d\d))\Z",
    re.ASCII,
)
# Characters of a date at most. JavaScript writes 70.
_LONGEST = 120
# A part of a date. Marks between parts mean nothing; any other character makes the text no date. With dots the day
# comes first, as in 31.12.2024, in all languages that use dots (German, Russian, Turkish and others).
_PART = re.compile(
    r"(?P<date>\d{4}([-/.])\d\d?\2\d\d?(?!\d)|\d\d?([-/.])\d\d?\3\d{2,4}(?!\d))"
    r"|(?P<clock>\d\d?[:h]\d\d(?::\d\d(?:[.,]\d+)?)?(?![\d:]))|(?P<offset>[+-]\d\d?(?::?\d\d)?(?![\d:]))"
    r"|(?P<region>[A-Z][a-z]+/[A-Z]\w+(?:/\w+)?)|(?P<number>\d+)"
    r"|(?P<word>[^\W\d_](?:[^\s\d!-&(-/:-@\[-`{-~]|\.(?=[^\W\d_]))*)|(?P<mark>[-\s,.;:|/()@·•])|."
)
# An offset may be followed by its name, as in +0100 (CET), +01:00[Europe/Berlin], +0530 IST, and Go's clock m=+0.01.
_NAME = re.compile(r"([+-]\d\d:?\d\d|Z) ?(?:[(\[].*|[A-Z]{2,5}(?: m=\S+)?\Z)")
# Clocks with dots, behind a date; with an h; and whole hours.
_DOTTED = re.compile(r"(?<=[\sT,])([01]?\d|2[0-4])\.([0-5]\d)(?:\.([0-5]\d)(?:[.,]\d{3,9})?)?(?![\d.]| \d{4})")
_HOURS = re.compile(r"(?<![\d:./-])(\d\d?)(?:(?: ?h| uhr)(?: ?([0-5]\d)\b)?(?![a-z])|(?= ?[ap]\.?m\b))", re.I)
_EAST_ASIAN = re.compile(r"(\d{4}) ?[年년] ?(\d\d?) ?[月월] ?(\d\d?) ?[日号일]?")
_MICROSOFT = re.compile(r"/?Date\((-?\d{1,20})(?:[+-]\d{4})?\)/?\Z", re.ASCII)
_DASHES = dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-")
_MOST_HOURS = 14  # of an offset; a larger number is a year, as in 05-Jan-2024
_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
# Word -> its month, or 0 if it says nothing. A negative month is also a day in some languages ("mar").
_ENGLISH = {
    **dict.fromkeys(("at", "of", "st", "nd", "rd", "th", "t", "tues", "wednes", "thur", "thurs"), 0),
    **{day[:size]: 0 for day in _DAYS for size in (3, 9)},
    **{name[:size]: month for month, name in enumerate(_NAMES, 1) for size in (3, 9)}, "sept": 9, "mar": -3,
}  # fmt: skip
# The languages with the most texts on the Web; their words are read. A word with two meanings counts as unknown.
_LANGUAGES = (
    "de", "fr", "es", "it", "pt", "nl", "ru", "uk", "pl", "cs", "sk", "hu", "ro", "bg", "sr", "hr", "sl", "el", "tr",
    "sv", "da", "nb", "fi", "et", "lv", "lt", "ca", "id", "ar", "fa", "he", "hi", "th", "ko", "ja", "zh",
)  # fmt: skip
# Only abbreviations with a single meaning: IST is used in India, Ireland and Israel; AST and others are ambiguous too.
_ZONES: dict[str, int | str] = {
    "Z": 0, "UT": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 1, "BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3,
    "MSK": 3, "HKT": 8, "SGT": 8, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13,
    "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
    "ET": "America/New_York", "CT": "America/Chicago", "MT": "America/Denver", "PT": "America/Los_Angeles",
}  # fmt: skip


def milliseconds_of(published: Any) -> int:
    """Parse a date into ms since 1970; NO_TIME if it is missing or unreadable.

    Accepts ISO 8601 (also GDELT's 20240101T120000Z), RFC 2822 and similar forms with months in words, 31.12.2024 14:05,
    calendar digits (20240101120000), and counts of s, ms, µs or ns since 1970. Bare digits count up to 2049 only.

    >>> milliseconds_of("2024-01-01T00:00:00Z"), milliseconds_of(1704067200), milliseconds_of("soon")
    (1704067200000, 1704067200000, -1)
    """
    if published is None:
        return NO_TIME
    if type(published) is str and published[4:5] == "-":  # nearly all dates have this form
        try:
            return _after_1970(datetime.fromisoformat(published))
        except (ValueError, OverflowError):
            pass
    try:
        return parsed(published)
    except (ValueError, OverflowError):
        return NO_TIME


def parsed(published: Any) -> int:
    """Do what `milliseconds_of` does, and say why a date is unreadable.

    Raises ValueError with one of REASONS, or with a text of Python's own; OverflowError for a date out of its range.
    """
    if isinstance(published, (int, float)) and not isinstance(published, bool):
        return _of_number(published)
    if isinstance(published, str):
        return _of_text(published.strip())
    raise ValueError(NOT_A_DATE)


def _of_text(text: str) -> int:
    if _NUMBER.match(text):
        digits = text.lstrip("+-").isdecimal()
        return _of_number(int(text) if digits and len(text) <= _MOST_DIGITS else float(text))
    if (match := _RFC.match(text)) and (month := _ENGLISH.get(match[2].lower())):
        day, _, year, hour, minute, second, sign, hours, minutes = match.groups(default="0")
        moment = datetime(int(year), abs(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
        return _after_1970(moment - int(f"{sign}1") * timedelta(hours=int(hours), minutes=int(minutes)))
    if match := _MICROSOFT.match(text):
        return _of_number(int(match[1]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _of_parts(text)
    return _after_1970(moment)


def _of_number(number: int | float) -> int:
    if not 0 <= number < _UNITS[-1][1]:
        raise ValueError(NOT_A_DATE if number != number else OUT_OF_RANGE)
    digits = str(int(number))
    if number == int(number) and _CALENDAR.match(digits):  # not 1976, of which twelve digits could be the milliseconds
        return _of_digits(digits)
    ticks = number // _TICKS_A_SECOND if number >= _UNITS[-1][0] else 0
    if ticks and any(_FIRST_TICK <= ticks - epoch < _END for epoch in _TICK_EPOCHS):
        raise ValueError(TICKS)
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


def _of_parts(text: str) -> int:
    """Parse a date by its parts. Each must be known, and may occur once."""
    if len(text) > _LONGEST:
        raise ValueError(NOT_A_DATE)
    text = _NAME.sub(r"\1", _EAST_ASIAN.sub(r"\1-\2-\3 ", " ".join(text.translate(_DASHES).split())))
    text = _DOTTED.sub(lambda clock: ":".join(filter(None, clock.groups())), text)
    text = _HOURS.sub(lambda hour: f"{hour[1]}:{hour[2] or '00'}", text)
    parts, numbers, months = dict[str, str](), list[str](), set[int]()
    for part in _PART.finditer(text):
        kind, word = part.lastgroup, part[0]
        if kind == "offset" and ("clock" not in parts or int(word[1:3].rstrip(":")) > _MOST_HOURS):
            kind, word = "number", word[1:]
        elif kind == "word":
            kind, word = _word(word, "clock" in parts)
        if kind == "number":
            numbers.append(word)
        elif kind == "month":
            months.add(int(word))
        elif kind is None or kind in parts:
            raise ValueError(NOT_A_DATE)
        elif kind != "mark" and not (kind == "zone" and "offset" in parts):  # the offset says more
            parts[kind] = word
    months = {month for month in months if month > 0} or {-month for month in months}
    year, month, day = _day_of(parts.get("date"), numbers, sorted(months))
    moment = datetime(year, month, day, tzinfo=_zone(parts)) + _time_of_day(parts.get("clock"), parts.get("half"))
    return _after_1970(moment)


def _word(word: str, is_after_clock: bool) -> tuple[str, str]:
    """Return which kind of part a word is, and its value."""
    low = word.replace(".", "").lower()
    if low in ("am", "pm"):
        return "half", low
    if is_after_clock and word.upper() in _ZONES:
        return "zone", word.upper()
    meaning = _ENGLISH[low] if low in _ENGLISH else _foreign().get(low)
    if meaning is None and not _foreign():
        raise ValueError(NO_LANGUAGES)
    if meaning is None:
        raise ValueError(UNKNOWN_ZONE if is_after_clock and word.isupper() and len(word) < 6 else NOT_A_DATE)
    return ("half", meaning) if isinstance(meaning, str) else ("month", str(meaning)) if meaning else ("mark", "")


@cache
def _foreign() -> dict[str, int | str]:
    """Return what `_ENGLISH` has for other languages, and halves of the day in scripts where they are no words, too."""
    try:
        from dateparser.languages.loader import default_loader  # takes .4 s and 20 MB, which English dates do not need
    except ImportError:
        return {}
    months, halves = dict[str, set[int]](), dict[str, int | str]()
    fillers = {"º", "ª", "as", "ore", "г", "года", "uur", "godz", "hs"}
    for locale in default_loader.get_locales(languages=list(_LANGUAGES)):
        words = {
            name: [word.replace(".", "").lower() for word in locale.info.get(name, ())]
            for name in (*_NAMES, *_DAYS, "skip", "am", "pm")
        }
        for month, name in enumerate(_NAMES, 1):
            for word in words[name]:
                months.setdefault(word, set()).add(month)
        fillers.update(word for name in (*_DAYS, "skip") for word in words[name])
        halves |= {word: half for half in ("am", "pm") for word in words[half] if not word.isascii() and len(word) > 1}
    # Short ones are Roman numbers, and some of those are words of other languages.
    known = {
        word: min(numbers)
        for word, numbers in months.items()
        if len(numbers) == 1 and not (word.isascii() and len(word) < 3)
    }
    return dict.fromkeys(fillers, 0) | halves | {w: -month if w in fillers else month for w, month in known.items()}


def _day_of(date: str | None, numbers: Sequence[str], months: Sequence[int]) -> tuple[int, int, int]:
    if date is None:
        if len(months) != 1 or len(numbers) != 2:
            raise ValueError(NOT_A_DATE)
        day, year = sorted(numbers, key=len) if len(numbers[0]) != len(numbers[1]) else numbers
        if len(day) > 2 or len(year) not in (2, 4):
            raise ValueError(NOT_A_DATE)
        # RFC 2822's rule for years of two digits.
        return int(year) + ((2000 if int(year) < 50 else 1900) if len(year) == 2 else 0), months[0], int(day)
    first, second, third = (int(number) for number in re.split("[-/.]", date))
    if numbers or months:
        raise ValueError(NOT_A_DATE)
    if date[:4].isdecimal():
        return first, second, third
    if third < 100 or ("." not in date and first != second and max(first, second) < 13):
        raise ValueError(AMBIGUOUS)
    return (third, first, second) if second > 12 and "." not in date else (third, second, first)


def _time_of_day(clock: str | None, half: str | None) -> timedelta:
    hour, minute, second = ([int(number) for number in re.findall(r"\d+", clock or "0")] + [0, 0])[:3]
    if half:
        if hour > 12 and half == "am":
            raise ValueError(NOT_A_DATE)
        hour = hour % 12 + (12 if half == "pm" else 0)
    if (hour, minute, second) > (24, 0, 0) or minute > 59 or second > 60:  # 24:00 is the end of the day
        raise ValueError(NOT_A_DATE)
    return timedelta(hours=hour, minutes=minute, seconds=min(second, 59))


_regions = cache(available_timezones)


def _zone(parts: dict[str, str]) -> tzinfo:
    if "offset" in parts:
        digits = parts["offset"][1:].replace(":", "")
        hours, minutes = (digits, "0") if len(digits) < 3 else (digits[:-2], digits[-2:])
        size = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-size if parts["offset"][0] == "-" else size)
    zone = parts.get("region") or _ZONES[parts.get("zone", "Z")]
    if isinstance(zone, int):
        return timezone(timedelta(hours=zone))
    if zone not in _regions():
        raise ValueError(UNKNOWN_ZONE)
    return ZoneInfo(zone)
