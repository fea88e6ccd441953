"""Unambiguous dates are parsed; any other counts as missing and has a reason."""

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_dedup.news.dates import NO_TIME, NO_VALUES, REASONS, milliseconds_of
from stream_dedup.tools.survey.survey import why_unreadable

NOON = 1704110400000  # 2024-01-01 12:00 UTC
DAY = 1704067200000


READ = {
    NOON: [
        "2024-01-01T12:00:00Z", "2024-01-01T12:00:00", "2024-01-01 12:00:00", " 2024-01-01T12:00:00Z\n",
        "2024-01-01T17:30:00+05:30", "2024-01-01T07:00:00-0500", "2024-01-01 12:00:00 +0000",
        "2024-01-01 12:00:00 UTC", "2024-01-01 13:00 CET", "2024/01/01 12:00:00", "20240101T120000Z",
        "20240101T120000", "20240101120000", "202401011200", 202401011200, 20240101120000,
        "Mon, 01 Jan 2024 12:00:00 GMT",
        "Mon, 1 Jan 2024 13:00:00 +0100", "1 Jan 24 12:00 UT", "Mon, 01 Jan 2024 07:00:00 EST",
        "Monday, 01-Jan-24 12:00:00 GMT", "Mon Jan  1 12:00:00 2024", "Mon Jan 01 12:00:00 +0000 2024",
        "Mon Jan 01 2024 13:00:00 GMT+0100 (CET)", "1st of January 2024 at 12:00 pm", "01.01.2024 12:00",
        "1.1.2024, 12:00 Uhr", "01.01.2024 13:00:00 CET", 1704110400, 1704110400000, 1704110400000000,
        1704110400000000000, "1704110400", "1704110400000",
        # Marks, spaces and words around the parts, and other ways to write a zone.
        "Jan. 1, 2024 12:00 p.m.", "Mon. 01 Jan 2024 12:00:00 GMT", "Mon, 01 Jan 2024\xa012:00:00 GMT",
        "2024-01-01t12:00:00z", "Mon, 01 Jan 2024 12:00:00 gmt", "01.01.2024 - 12:00", "1 January 2024 – 12:00",
        "January 1, 2024 | 12:00 pm", "01-Jan-2024 12:00:00", "2024-01-01 12:00 PM", "January 1st, 2024, 7:00 a.m. ET",
        "2024-01-01T13:00:00+01:00[Europe/Berlin]", "Mon, 01 Jan 2024 13:00:00 Europe/Berlin",
        "2024-01-01 12:00:00.5 +0000 UTC", "2024-01-01 17:30:00 +0530 IST m=+0.000000001", "1 Jan 2024 13:00:00 GMT+1",
        "Mon Jan 01 2024 13:00:00 GMT+0100 (Central European Standard Time)", "1 Jan 2024 13:00:00 +1:00",
        "1 Jan 2024 13:00:00 +100", "1 Jan 2024 20:00:00 UTC+8", "/Date(1704110400000)/", "/Date(1704110400000+0100)/",
        # Clocks without minutes, with dots or with an h.
        "1st January 2024 at 12pm", "January 1, 2024 7am ET", "1 January 2024 - 12 p.m.", "2024-01-01 12.00.00",
        "2024-01-01T12.00", "01.01.2024 12.00", "01-JAN-24 12.00.00.000000 PM", "1 janvier 2024 à 12 h 00",
        "1 janvier 2024, 12 h", "1 januari 2024 kl. 12.00", "1. Januar 2024 um 12 Uhr", "1 januari 2024 12.00 uur",
        # The words of other languages, and East Asian dates.
        "Mo, 01 Januar 2024 12:00 Uhr", "lun., 01 ene 2024 13:00:00 +0100", "1 janvier 2024 à 12h00",
        "Пн, 01 янв 2024 12:00", "1 de janeiro de 2024 às 12:00", "2024年1月1日 12:00", "2024년 1월 1일 오후 12:00",
    ],
    DAY + 86_400_000: ["2024-01-01T24:00:00Z", "Mon, 01 Jan 2024 24:00:00 GMT", "1 Janvier 2024 24:00"],
    1709596800000: ["mar, 05 mars 2024", "Mar 5, 2024", "Tues. 5 March 2024"],
    1529884800000: ["25/06/2018", "06/25/2018", "25-06-2018"],
    1714867200000: ["05/05/2024"],
    NOON + 123: ["2024-01-01T12:00:00.123456789Z"],
    DAY: ["2024-01-01", "2024.1.1", "1.1.2024", "20240101", 20240101, "January 1, 2024", "Jan 1, 2024, 12:00 AM"],
    2524521600000: ["20491231"],
    2524607940000: ["204912312359"],
    2524607999000: [2524607999],
    NOON + 500: [1704110400.5],
    NOON + 250: ["1704110400.25"],
}  # fmt: skip


@pytest.mark.parametrize(("published", "time"), [(one, time) for time, each in READ.items() for one in each])
def test_what_is_certain_is_read(published: object, time: int) -> None:
    assert milliseconds_of(published) == time
    assert why_unreadable(published) is None


UNREAD = {
    "not a date": [
        "yesterday", "5 minutes ago", "soon", float("nan"), "2024-13-01", "2024-02-30T00:00:00Z", "20240230",
        "02.13.2024",
        "Mon, 32 Jan 2024 12:00:00 GMT", "Mon, 01 Jan 2024 25:00:00 GMT", "Jan 2024", True,
        [2024, 1, 1], {"when": 1}, "Jan 5", "10:00", "Monday", "May", "Q1 2024", "Spring 2024", "5-7 Jan 2024",
        "5 Jan 2024 - 7 Jan 2024", "2024-01-05 / 2024-01-06", "Updated: January 5, 2024", "13/13/2024", "30 Feb 2024",
        "5 Jan 2024 13:00 am", "5 Jan 2024 24:01", "5 Jan 2024 10:61", "1.2.3.2024", "5 listopada 2024",
        "5 Jan 2024 " * 20, "Mo 05.01 2026", "5 Jan 10.24", "202401019999",
    ],
    "ticks of .NET or Windows, or nanoseconds of 1974 or 1990": [
        639032040000000000, "639032040000000000", 134120808000000000,
    ],
    "out of range": [
        "2024", "20241301", 1e30, "1e30", 10**400, "9" * 5000, float("inf"), -1, "-1704110400", 0, 12345,
        "206305200000", "205001010000", "20630520", 20630520, "20630520000000", 2524608000, 99999999999,
        "2524608000000", 2524608000000000, "2524608000000000000", "19691231", "1969-12-31T23:59:59Z",
        "0001-01-01T00:00:00Z",
    ],
    "day or month first": ["03/04/2024", "31.12.24 10:00", "1-2-24"],
    "unknown time zone": [
        "Mon, 01 Jan 2024 12:00:00 IST", "2024-01-01 12:00 XYZ", "2024-01-01 12:00 Europe/Nowhere",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("published", "reason"), [(one, reason) for reason, each in UNREAD.items() for one in each])
def test_what_is_not_certain_has_a_reason(published: object, reason: str) -> None:
    assert milliseconds_of(published) == NO_TIME
    assert why_unreadable(published) == reason
    assert reason in REASONS


@pytest.mark.parametrize("published", [None, "", "  \n", "nan", "None", "\\N", " - "])
def test_where_nothing_is_said_nothing_is_unreadable(published: object) -> None:
    assert (milliseconds_of(published), why_unreadable(published)) == (NO_TIME, None)


MOMENTS = st.datetimes(
    datetime(1991, 1, 1), datetime(2049, 12, 30),
    timezones=st.integers(-12 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)  # fmt: skip


DIGITS = st.builds(
    lambda year, rest: int(f"{year}{rest}"),
    st.integers(1900, 2100),
    st.sampled_from(["0101", "12312359", "0520000000", "0230", "12312460"]),
)


@given(MOMENTS)
def test_every_way_to_write_a_moment_means_the_same(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)
    time = int(moment.timestamp()) * 1000
    utc = moment.astimezone(UTC)
    forms = ("%Y%m%dT%H%M%SZ", "%Y%m%d%H%M%S", "%a, %d %b %Y %H:%M:%S GMT", "%c", "%B %d, %Y %I:%M:%S %p")
    texts = [moment.isoformat(), moment.isoformat(" "), format_datetime(moment), *map(utc.strftime, forms)]
    for written in (*texts, time // 1000, time, time * 1000, time * 10**6, str(time)):
        assert milliseconds_of(written) == time, written


@given(st.integers(0, 10**20) | DIGITS)
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
    is_empty = published is None or (isinstance(published, str) and published.strip() in ("", *NO_VALUES))
    assert (time == NO_TIME) == (reason is not None or is_empty)
