"""Unambiguous dates are parsed; any other counts as missing and has a reason."""

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_dedup.news.dates import NO_TIME, REASONS, milliseconds_of, why_unreadable

NOON = 1704110400000  # 2024-01-01 12:00 UTC
DAY = 1704067200000


@pytest.mark.parametrize(
    ("published", "time"),
    [
        ("2024-01-01T12:00:00Z", NOON),
        ("2024-01-01T12:00:00", NOON),
        ("2024-01-01 12:00:00", NOON),
        (" 2024-01-01T12:00:00Z\n", NOON),
        ("2024-01-01T12:00:00.123456789Z", NOON + 123),
        ("2024-01-01T17:30:00+05:30", NOON),
        ("2024-01-01T07:00:00-0500", NOON),
        ("2024-01-01 12:00:00 +0000", NOON),
        ("2024-01-01 12:00:00 UTC", NOON),
        ("2024-01-01 13:00 CET", NOON),
        ("2024-01-01", DAY),
        ("2024/01/01 12:00:00", NOON),
        ("2024.1.1", DAY),
        # GDELT's, and digits of a calendar
        ("20240101T120000Z", NOON),
        ("20240101T120000", NOON),
        ("20240101120000", NOON),
        ("202401011200", NOON),
        ("20240101", DAY),
        (20240101120000, NOON),
        (20240101, DAY),
        # RFC 2822, RFC 850, asctime, and what else is written with a month's name
        ("Mon, 01 Jan 2024 12:00:00 GMT", NOON),
        ("Mon, 1 Jan 2024 13:00:00 +0100", NOON),
        ("1 Jan 24 12:00 UT", NOON),
        ("Mon, 01 Jan 2024 07:00:00 EST", NOON),
        ("Monday, 01-Jan-24 12:00:00 GMT", NOON),
        ("Mon Jan  1 12:00:00 2024", NOON),
        ("Mon Jan 01 12:00:00 +0000 2024", NOON),
        ("Mon Jan 01 2024 13:00:00 GMT+0100 (CET)", NOON),
        ("January 1, 2024", DAY),
        ("1st of January 2024 at 12:00 pm", NOON),
        ("Jan 1, 2024, 12:00 AM", DAY),
        # Counts since 1970
        (1704110400, NOON),
        ("20491231", 2524521600000),
        ("204912312359", 2524607940000),
        (2524607999, 2524607999000),
        (202401011200, 202401011200),  # May 1976, as the digits of a string are not
        (1704110400.5, NOON + 500),
        (1704110400000, NOON),
        (1704110400000000, NOON),
        (1704110400000000000, NOON),
        ("1704110400", NOON),
        ("1704110400.25", NOON + 250),
        ("1704110400000", NOON),
    ],
)
def test_what_is_certain_is_read(published: object, time: int) -> None:
    assert milliseconds_of(published) == time
    assert why_unreadable(published) is None


@pytest.mark.parametrize(
    ("published", "reason"),
    [
        ("yesterday", "not a date"),
        ("5 minutes ago", "not a date"),
        ("soon", "not a date"),
        ("NaN", "not a date"),
        (float("nan"), "not a date"),
        ("2024", "out of range"),
        ("2024-13-01", "not a date"),
        ("2024-02-30T00:00:00Z", "not a date"),
        ("20241301", "out of range"),
        ("20240230", "not a date"),
        ("Mon, 32 Jan 2024 12:00:00 GMT", "not a date"),
        ("Mon, 01 Jan 2024 25:00:00 GMT", "not a date"),
        ("Jan 2024", "not a date"),
        ("1 Janvier 2024", "not a date"),
        (True, "not a date"),
        ([2024, 1, 1], "not a date"),
        ({"when": 1}, "not a date"),
        (1e30, "out of range"),
        ("1e30", "out of range"),
        (10**400, "out of range"),
        ("9" * 5000, "out of range"),
        (float("inf"), "out of range"),
        (-1, "out of range"),
        ("-1704110400", "out of range"),
        (0, "out of range"),
        (12345, "out of range"),
        # Digits have no other sign that they are a date, so only plausible ones count
        ("206305200000", "out of range"),
        ("205001010000", "out of range"),
        ("20630520", "out of range"),
        (20630520, "out of range"),
        ("20630520000000", "out of range"),
        (2524608000, "out of range"),  # 2050 in s
        (99999999999, "out of range"),
        ("2524608000000", "out of range"),
        (2524608000000000, "out of range"),
        ("2524608000000000000", "out of range"),
        ("19691231", "out of range"),
        ("1969-12-31T23:59:59Z", "out of range"),
        ("0001-01-01T00:00:00Z", "out of range"),  # Go's zero
        ("03/04/2024", "day or month first"),
        ("31.12.2024 10:00", "day or month first"),
        ("1-2-24", "day or month first"),
        ("Mon, 01 Jan 2024 12:00:00 IST", "unknown time zone"),
        ("2024-01-01 12:00 XYZ", "unknown time zone"),
    ],
)
def test_what_is_not_certain_has_a_reason(published: object, reason: str) -> None:
    assert milliseconds_of(published) == NO_TIME
    assert why_unreadable(published) == reason
    assert reason in REASONS


@pytest.mark.parametrize("published", [None, "", "  \n"])
def test_where_nothing_is_said_nothing_is_unreadable(published: object) -> None:
    assert (milliseconds_of(published), why_unreadable(published)) == (NO_TIME, None)


MOMENTS = st.datetimes(
    datetime(1974, 1, 2), datetime(2049, 12, 30),
    timezones=st.integers(-12 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)  # fmt: skip


def calendar_digits(year: int) -> st.SearchStrategy[int]:
    after = st.sampled_from(["0101", "12312359", "0520000000", "0230", "12312460"])
    return after.map(lambda rest: int(f"{year}{rest}"))


@given(MOMENTS)
def test_every_way_to_write_a_moment_means_the_same(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)
    time = int(moment.timestamp()) * 1000
    utc = moment.astimezone(UTC)
    for written in (
        moment.isoformat(),
        moment.isoformat(" "),
        utc.strftime("%Y%m%dT%H%M%SZ"),
        utc.strftime("%Y%m%d%H%M%S"),
        utc.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        utc.strftime("%c"),
        utc.strftime("%B %d, %Y %I:%M:%S %p"),
        format_datetime(moment),
        time // 1000,
        time,
        time * 1000,
        time * 10**6,
        str(time),
    ):
        assert milliseconds_of(written) == time, written


@given(st.one_of(st.integers(0, 10**20), st.integers(1900, 2100).flatmap(calendar_digits)))
def test_digits_alone_are_a_date_before_2050_or_none(digits: int) -> None:
    for written in (digits, str(digits)):
        assert milliseconds_of(written) < 2_524_608_000_000


@given(
    st.one_of(
        st.text(), st.floats(), st.integers(), st.booleans(), st.none(), st.lists(st.integers()),
        st.text("0123456789-:TZ+ .,/JanMoGMTpm()", max_size=30),
    )
)  # fmt: skip
@example("٢٠٢٤-٠١-٠١")
@example("1704067200")
@example("1711111112")
def test_a_time_is_none_just_where_there_is_a_reason_or_nothing_to_read(published: object) -> None:
    time, reason = milliseconds_of(published), why_unreadable(published)
    assert time >= 0 or time == NO_TIME
    is_empty = published is None or (isinstance(published, str) and not published.strip())
    assert (time == NO_TIME) == (reason is not None or is_empty)
