"""The statistics of a feed are right, and each cause of silently wrong results gives a warning."""

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from stream_dedup.errors import BadItem
from stream_dedup.news.decode import Beside, Decoder
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.survey.summary import Summary, rows_of, summary_line
from stream_dedup.tools.survey.survey import FIRST, Survey

DAY = 86_400_000
NOW = 1_700_000_000_000
PLAIN, AUTO = load_settings(item={"preset": "plain"}), load_settings()
Records = list[dict[str, Any] | bytes]


def news(number: int, **more: Any) -> dict[str, Any]:
    """A record with every field; a field that is given as None is left out."""
    item = {
        "id": f"n{number}",
        "title": f"Elm bridge {number} opens",
        "text": "The bridge over the Elm opened. " * (number % 5 + 1),
        "url": f"https://www.site{number % 3}.example/{number}",
        "published": NOW + number * 1000,
        **more,
    }
    return {name: value for name, value in item.items() if value is not None}


def survey_of(records: Records, settings: Settings = PLAIN, *, key: bytes | None = None, **more: Any) -> Summary:
    """Survey these records. With `is_record` they are Kafka records whose timestamp is the `published` field."""
    decode = Decoder(settings.item)
    survey = Survey(decode.read, settings, **more)
    for number, record in enumerate(records):
        value = record if isinstance(record, bytes) else json.dumps(record).encode()
        time = record["published"] if more.get("is_record") and isinstance(record, dict) else None
        survey.add(decode(value, key, time, 0, number), value, 0, number)
    return survey.summary()


def warned(summary: Summary) -> dict[str, str]:
    return {one.kind: one.text for one in summary.warnings}


def test_a_sound_feed_is_counted_and_nothing_is_wrong() -> None:
    found = survey_of([news(i) for i in range(30)])
    assert (found.items, found.looked, found.bad, found.names) == (30, 30, 0, 30)
    assert found.filled == {"id": 30, "title": 30, "text": 30, "source": 0, "url": 30, "published": 30}
    assert found.samples["title"] == "Elm bridge 0 opens"
    assert (found.dates.earliest, found.dates.latest, found.dates.backwards) == (NOW, NOW + 29_000, 0)
    assert (found.sources, found.largest[0]) == (3, ("site0.example", 10))
    assert found.warnings == []
    assert not found.all_bad


def _each(count: int, **more: Any) -> Records:
    return [news(i, **more) for i in range(count)]


LACKING = "The bridge opened. " * 9


@pytest.mark.parametrize(
    ("records", "more", "kind", "said"),
    [
        ([], {}, "nothing", "The input is empty"),
        ([{"kop": LACKING}] * 30, {}, "all-bad", "All 30 items are bad: nothing can be judged. The first: 0:0: empty"),
        ([*_each(19), b"{", b"null"], {}, "many-bad", "2 of 21 items are bad. The first: 0:19: json"),
        (
            [{"headline": f"Elm {i}", "body": f"{LACKING}{i}"} for i in range(3)],
            {},
            "no-fields",
            'title = "headline", text = "body"',
        ),
        ([{"headline": "E", "body": LACKING}] * 3, {}, "no-fields", "The records have body, headline"),
        ([news(i, title=None, heading=f"Elm {i}") for i in range(3)], {}, "no-title", 'title = "heading"'),
        ([news(i, text=None, story=f"{LACKING}{i}") for i in range(3)], {}, "no-text", 'text = "story"'),
        ([news(i, id=None, guid=f"g{i}") for i in range(3)], {}, "no-id", 'id = "guid"'),
        (_each(3, id=None), {"key": b"k"}, "no-id", "so the keys of the records count"),
        (_each(3, published=None, crawled_at="2024-01-05"), {"settings": AUTO}, "crawl-dates", "come from crawled_at"),
        (
            [
                news(i, title=title, text="Accept our cookies to read on.", url="https://a.example/")
                for i, title in enumerate(("Goats stop trains", "Elm bridge opens", "Museum moves house"))
            ],
            {},
            "notices",
            "3 items have a text that stands under unlike headlines on their site",
        ),
        (_each(3, url=None, link="https://a.example", site="A"), {}, "no-source", 'source = "site", url = "link"'),
        (_each(3, published=None, posted_time="2024-01-05"), {}, "no-published", 'published = "posted_time"'),
        (_each(2) + _each(1, published="soon"), {}, "unreadable-dates", "1 date cannot be read (0:2: 'soon' is"),
        ([news(i, published=1_700_000 + i) for i in range(3)], {"is_record": True}, "dates-1970", "Let the producer"),
        (
            [news(0, id="x"), news(1, id="x", title="Ferry strike enters third day", text="Crews stayed ashore.")],
            {},
            "shared-ids",
            "2 items share their id with an item of another text, such as 'x' (0:0, 0:1): their ids name no articles",
        ),
        (
            [news(0), news(1, published=NOW + DAY), news(2)],
            {"latest": NOW + 5000},
            "future-dates",
            "1 date in the future (0:1: 2023-11-15 22:13 UTC) do not count",
        ),
        ([news(i, published=NOW - i * 1000) for i in range(30)], {}, "backwards", "the oldest first"),
        (
            [*_each(15), news(15, published=NOW - 400 * DAY)],
            {},
            "backwards",
            "At 1 place the dates go back, at 1 by more than the window (7 days), by 400 days at most",
        ),
    ],
)  # fmt: skip
def test_what_gives_wrong_results_is_told(records: Records, more: dict[str, Any], kind: str, said: str) -> None:
    assert said in warned(survey_of(records, **more))[kind]


def of_kafka(pairs: list[tuple[int, int | None]], time: str = "record") -> Summary:
    """Survey records with these timestamps and dates of their own."""
    settings = load_settings(item={"preset": "plain", "time": time})
    decode = Decoder(settings.item)
    survey = Survey(decode.read, settings, is_record=True)
    for number, (timestamp, date) in enumerate(pairs):
        value = json.dumps(news(number, published=date)).encode()
        survey.add(decode(value, None, timestamp, number % 3, number), value, number % 3, number)
    return survey.summary()


def test_a_backfill_is_told_by_the_dates_of_its_records() -> None:
    month = [(NOW + i, NOW - (60 - i) * DAY) for i in range(30)]
    found = of_kafka(month)
    assert (found.dates.dated, found.dates.apart) == (30, 30)
    assert (found.dates.spread, found.dates.record_spread) == (23 * DAY, 23)
    assert 'set [item] time = "published"' in warned(found)["backfill"]
    # Within the window, but spread over days.
    assert "backfill" in warned(of_kafka([(NOW + i, NOW - i * DAY // 6) for i in range(30)]))
    # Late by a minute; a few of them by weeks; none with a date; the setting is set.
    for sound in (
        [(NOW + i * 60_000, NOW + (i - 1) * 60_000) for i in range(30)],
        [(NOW + i * 60_000, NOW - (20 * DAY if i in (7, 9) else i)) for i in range(30)],
        [(NOW + i, None) for i in range(30)],
        month[:9],
    ):
        assert "backfill" not in warned(of_kafka(sound))
    found = of_kafka(month, "published")
    assert "so the timestamps of the records count" in warned(of_kafka([(NOW, None)]))["no-published"]
    assert "backfill" not in warned(found)
    assert (found.dates.origin, found.dates.earliest) == ("published", NOW - 60 * DAY)


@pytest.mark.parametrize(
    ("records", "more"),
    [
        ([b"The bridge opened."], {"settings": load_settings(item={"preset": "text"}), "key": b"k"}),
        ([news(0), news(1, published=NOW - 90_000), news(2)], {}),  # jitter
        # One date that is too late does not make all after it look late.
        ([news(i, **({"published": NOW + 2 * DAY} if i == 5 else {})) for i in range(30)], {}),
        ([news(i, published=NOW - i * 1000) for i in range(30)], {"in_order": False}),
    ],
)
def test_what_is_sound_is_not_told(records: Records, more: dict[str, Any]) -> None:
    assert set(warned(survey_of(records, **more))) <= {"no-source", "no-published"}


def test_the_order_of_dates_is_shown_where_it_means_something() -> None:
    records: Records = [news(0), news(1, published=NOW - 90_000), news(2)]
    assert "1 out of order (by 1 minute at most)" in dict(rows_of(survey_of(records)))["dates"]
    assert "order" not in dict(rows_of(survey_of(records, in_order=False)))["dates"]


@pytest.mark.parametrize("published", ["yesterday", 1e30, -5])
def test_unreadable_dates_are_counted_with_place_and_value(published: Any) -> None:
    found = survey_of([news(0), news(1, published=published), news(2, published=None)])
    assert (found.dates.unreadable, found.dates.missing) == (1, 1)
    assert found.dates.examples[0].startswith("0:1: ")
    assert str(published) in found.dates.examples[0]


def test_items_without_a_date_are_all_counted_beyond_the_sample() -> None:
    found = survey_of([*_each(FIRST), *_each(1000, published=None), *_each(150, published="soon")])
    assert "published 53 %" in dict(rows_of(found))["filled"]
    assert found.dates.unreadable == 150


def test_dates_that_the_decoder_hands_over_are_not_read_again() -> None:
    decode, read = Decoder(PLAIN.item), list[bytes]()

    def again(value: bytes, headers: Any) -> Any:
        read.append(value)
        return decode.read(value, headers)

    alone, helped = Survey(decode.read, PLAIN), Survey(again, PLAIN)
    undated = [*_each(50, published=None), *_each(49, published="soon"), *_each(99, published=" "), b"{"]
    for number, record in enumerate([*_each(FIRST), *undated]):
        value, beside = record if isinstance(record, bytes) else json.dumps(record).encode(), list[Beside]()
        item = decode(value, None, None, 0, number, beside=beside)
        alone.add(item, value, 0, number)
        helped.add(item, value, 0, number, beside=beside[0] if beside else None)
    assert helped.summary() == alone.summary()
    assert helped.summary().dates.unreadable == 49
    assert len(read) == FIRST + 1  # one of the others in the sample of one in a hundred


def test_record_times_are_in_order_within_a_partition() -> None:
    """The partitions take turns."""
    times = (NOW, NOW - DAY, NOW - 2 * DAY, NOW + 1, NOW - DAY + 1, NOW - 2 * DAY - 1)
    assert of_kafka([(time, None) for time in times]).dates.backwards == 1


def test_the_first_three_reasons_of_bad_items_are_told_with_their_places() -> None:
    place: Callable[[int, int], str] = "file:{1}".format
    found = survey_of([b"{", *_each(19), b'{"title": 5}', b"\xff", b"null", b"{"], place=place)
    assert found.bad == 5
    reasons = [one.split(": ")[:2] for one in found.reasons]
    assert reasons == [["file:0", "json"], ["file:20", "type"], ["file:21", "json"]]
    assert found.reasons[0].endswith(" (2 times)")


@pytest.mark.slow
def test_what_it_keeps_is_bounded_whatever_comes() -> None:
    decode = Decoder(PLAIN.item)
    survey = Survey(decode.read, PLAIN, every=1)

    def feed(start: int) -> None:
        for i in range(start, start + 6000):
            more = {f"x{i}-{j}": "y" * 50 for j in range(5)}
            record = news(i, url=f"https://s{i}.example", published=f"never {i}" * 50, **more)
            value = json.dumps(record).encode()
            survey.add(decode(value, None, None, 0, i), value, 0, i)
            survey.add(BadItem("type", f"{i} " * 500), b"{", 0, i)

    feed(0)
    tracemalloc.start()
    feed(6000)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Caches of the decoder (sites) grow too: 65,536 hosts at most, some 200 bytes each; their tables double at times.
    assert grown < 6000 * 600
    found = survey.summary()
    assert found.sources == 4096
    assert len(found.reasons) == len(found.dates.examples) == 3
    assert all(len(one) < 700 for one in (*found.reasons, *found.dates.examples))


def test_sources_of_a_sample_are_a_lower_bound() -> None:
    assert dict(rows_of(survey_of(_each(FIRST))))["sources"].startswith("3: ")
    assert dict(rows_of(survey_of(_each(FIRST + 1))))["sources"].startswith("at least 3: ")


def test_it_fits_in_a_line_for_the_log() -> None:
    text = summary_line(survey_of(_each(3)))
    assert "\n" not in text
    assert text.startswith("3 items, 0 bad; read as: ")
    assert "filled: id 100 %, title 100 %" in text
    assert "dates: 2023-11-14 22:13 to 2023-11-14 22:13 UTC; in order" in text
    assert summary_line(survey_of([])) == "0 items, 0 bad"


def test_nothing_that_is_told_can_rewrite_a_terminal() -> None:
    bad = "\x1b]0;owned\x07\u202e"
    hostile = {name: f"{name}{bad}" for name in ("id", "title", "text", "source", "published", f"x{bad}")}
    found = survey_of([hostile, {f"kopf{bad}": bad}, *[{"x": bad}] * 12])
    text = [summary_line(found), *found.samples.values(), *found.reasons, *found.dates.examples, *found.paths]
    text += [one.text for one in found.warnings]
    assert any("owned" in one for one in text)
    assert all(one.isprintable() for one in text)


def test_a_member_that_cannot_be_decoded_hides_no_field() -> None:
    found = survey_of([b'{"id": "1", "title": "T", "text": "x", "other": "\xff"}'] * 3)
    assert (found.filled["title"], found.bad, found.paths) == (3, 0, [])
