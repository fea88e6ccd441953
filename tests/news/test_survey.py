"""The statistics of a feed are right, and each cause of silently wrong results gives a warning."""

import json
import tracemalloc
from typing import Any

import pytest

from stream_dedup.errors import BadItem
from stream_dedup.news.decode import Decoder
from stream_dedup.news.summary import Summary, rows_of, summary_line
from stream_dedup.news.survey import FIRST, Survey
from stream_dedup.settings import Settings, load_settings

DAY = 86_400_000
NOW = 1_700_000_000_000
PLAIN = load_settings(item={"preset": "plain"})


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


def survey_of(
    records: list[dict[str, Any] | bytes], settings: Settings = PLAIN, *, key: bytes | None = None, **more: Any
) -> Summary:
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
    assert (found.items, found.looked, found.bad, found.names, found.repeated) == (30, 30, 0, 30, 0)
    assert found.filled == {"id": 30, "title": 30, "text": 30, "source": 0, "url": 30, "published": 30}
    assert found.samples["title"] == "Elm bridge 0 opens"
    assert (found.dates.earliest, found.dates.latest, found.dates.backwards) == (NOW, NOW + 29_000, 0)
    assert (found.sources, found.largest[0]) == (3, ("site0.example", 10))
    assert found.languages == {"Latin script": 30}
    assert found.length == (32, 96, 160)
    assert found.warnings == []
    assert not found.all_bad


def test_languages_are_those_stated_and_else_the_script() -> None:
    text = [news(0, lang="DE"), news(1, language="de"), news(2, inLanguage="fr"), news(3, language=["x"])]
    text.append(news(4, title="Мост", text="Мост открыт"))
    assert survey_of(text).languages == {"de": 2, "fr": 1, "Latin script": 1, "Cyrillic script": 1}


def test_a_field_map_that_fits_nothing_is_told_with_what_the_records_have() -> None:
    records = [{"headline": f"Elm {i}", "body": "The bridge opened. " * 9, "when": NOW} for i in range(30)]
    found = survey_of(records)
    assert found.bad == 30
    assert found.all_bad
    text = warned(found)
    assert list(text) == ["all-bad", "no-fields"]
    assert text["all-bad"].startswith("All 30 items are bad")
    assert found.reasons[0].startswith("0:0: empty: ")
    assert found.reasons[0].endswith(" (30 times)")
    assert "the records have body, when, headline" in text["no-fields"]
    assert 'title = "headline", text = "body"' in text["no-fields"]


def test_auto_is_named_where_it_fits() -> None:
    records = [
        {"headline": f"Elm {i}", "articleBody": "The bridge opened.", "url": "https://a.example"} for i in range(3)
    ]
    text = warned(survey_of(records))["no-fields"]
    assert 'Set preset = "auto"' in text
    assert "it reads schema_org" in text
    overridden = load_settings(item={"fields": {"title": "t", "text": "t"}})
    assert "Remove title and text from [item.fields]" in warned(survey_of(records, overridden))["no-fields"]


def test_no_preset_is_named_that_would_lose_more_than_it_finds() -> None:
    text = warned(survey_of([news(i, title=None, headline="Elm bridge") for i in range(3)]))["no-title"]
    assert "preset" not in text
    assert 'title = "headline"' in text


def test_a_title_or_a_text_that_nobody_has_is_told() -> None:
    records = [news(i, title=None, heading="Elm bridge") for i in range(12)]
    assert 'title = "heading"' in warned(survey_of(records))["no-title"]
    records = [news(i, text=None, story="The bridge opened. " * 20) for i in range(12)]
    assert 'text = "story"' in warned(survey_of(records))["no-text"]
    some = [news(i, text=None if i % 3 else "The bridge opened.") for i in range(30)]
    assert warned(survey_of(some))["few-texts"] == "Only 10 of 30 items have a text."


def test_ids_that_are_missing_or_the_same_are_told() -> None:
    text = warned(survey_of([news(i, id=None, guid=f"g{i}") for i in range(3)]))
    assert 'id = "guid"' in text["no-id"]
    assert "no-id" not in warned(survey_of([news(i, id=None) for i in range(3)], key=b"k"))
    text = warned(survey_of([news(i, id="feed") for i in range(30)]))
    assert text["same-ids"].startswith("29 of 30 items have the id of an earlier one")


def test_items_without_a_source_are_told() -> None:
    assert (
        'source = "site", url = "link"'
        in warned(survey_of([news(i, url=None, link="https://a.example", site="A") for i in range(3)]))["no-source"]
    )


@pytest.mark.parametrize("published", ["yesterday", 1e30, -5])
def test_unreadable_dates_are_counted_with_place_and_value(published: Any) -> None:
    found = survey_of([news(0), news(1, published=published), news(2, published=None)])
    assert (found.dates.unreadable, found.dates.missing) == (1, 1)
    assert found.dates.examples[0].startswith("0:1: ")
    assert str(published) in found.dates.examples[0]
    assert warned(found)["unreadable-dates"].startswith("1 date cannot be read (0:1: ")


def test_unreadable_dates_are_all_counted_beyond_the_sample() -> None:
    records: list[dict[str, Any] | bytes] = [news(i) for i in range(FIRST)]
    records += [news(i, published="soon") for i in range(150)]
    assert survey_of(records).dates.unreadable == 150


def test_seconds_taken_for_milliseconds_are_told() -> None:
    records = [news(i, published=1_700_000 + i) for i in range(30)]
    text = warned(survey_of(records, is_record=True))["dates-1970"]
    assert "January 1970" in text
    assert "Let the producer write milliseconds" in text


def test_a_few_times_of_1970_are_told_from_an_archive() -> None:
    records = [news(i) for i in range(15)] + [news(15, published=1000)]
    text = warned(survey_of(records, is_record=True))["jumps-back"]
    assert "The earliest is of January 1970" in text
    assert "archive" not in text
    records[-1] = news(15, published=NOW - 400 * DAY)
    assert "Is an archive replayed" in warned(survey_of(records, is_record=True))["jumps-back"]


def test_a_feed_without_dates_is_told() -> None:
    assert (
        'published = "posted_time"'
        in warned(survey_of([news(i, published=None, posted_time="2024") for i in range(3)]))["no-dates"]
    )


def test_dates_ahead_of_the_clock_are_told_and_do_not_count() -> None:
    found = survey_of([news(0), news(1, published=NOW + DAY), news(2)], latest=NOW + 5000)
    assert (found.dates.future, found.dates.latest, found.dates.backwards) == (1, NOW + 2000, 0)
    assert "1 date lies in the future (0:1: " in warned(found)["future-dates"], "where it is"


def test_dates_out_of_order_are_counted() -> None:
    found = survey_of([news(0), news(1, published=NOW - 90_000), news(2)])
    assert (found.dates.backwards, found.dates.furthest_back, found.dates.jumps) == (1, 90_000, 0)
    assert "jumps-back" not in warned(found)
    assert "1 out of order (by 1 minute at most)" in dict(rows_of(found))["dates"]
    found = survey_of([news(i) for i in range(15)] + [news(15, published=NOW - 400 * DAY)])
    text = warned(found)["jumps-back"]
    assert text.startswith("At 1 place the dates jump back by more than the window (7 days), by 400 days at most.")


def test_one_date_that_is_too_late_does_not_make_all_after_it_look_late() -> None:
    records = [news(i) for i in range(30)]
    records[5]["published"] += 2 * DAY
    found = survey_of(records)
    assert (found.dates.backwards, found.dates.jumps) == (1, 0)
    assert found.warnings == []


def test_where_the_order_says_nothing_nothing_is_said_of_it() -> None:
    found = survey_of([news(i, published=NOW - i * 1000) for i in range(30)], in_order=False)
    assert found.dates.backwards is None
    assert found.warnings == []
    assert "order" not in dict(rows_of(found))["dates"]


def test_a_feed_from_the_newest_to_the_oldest_is_told() -> None:
    assert "oldest first" in warned(survey_of([news(i, published=NOW - i * 1000) for i in range(30)]))["backwards"]


def test_record_times_are_in_order_within_a_partition() -> None:
    decode = Decoder(PLAIN.item)
    survey = Survey(decode.read, PLAIN, is_record=True)
    value = json.dumps(news(0)).encode()
    for part, time in ((0, NOW), (1, NOW - DAY), (0, NOW + 1), (1, NOW - DAY + 1), (1, NOW - DAY)):
        survey.add(decode(value, None, time, part, 0), value, part, 0)
    assert survey.summary().dates.backwards == 1


def test_bad_items_are_counted_and_the_first_three_told_with_their_places() -> None:
    found = survey_of(
        [b"{", *[news(i) for i in range(1, 20)], b'{"title": 5}', b"\xff", b"null"], place="file:{1}".format
    )
    assert found.bad == 4
    assert [one.split(": ")[:2] for one in found.reasons] == [
        ["file:0", "json"],
        ["file:20", "type"],
        ["file:21", "json"],
    ]
    assert warned(found)["many-bad"].startswith("4 of 23 items are bad. The first: file:0: json")


def test_nothing_is_told_as_such() -> None:
    found = survey_of([])
    assert found.all_bad
    assert list(warned(found)) == ["nothing"]
    assert summary_line(found) == "0 items, 0 bad"


def test_texts_without_fields_have_no_fields_to_name() -> None:
    settings = load_settings(item={"format": "text"})
    found = survey_of([b"The bridge opened."], settings, key=b"k")
    assert set(warned(found)) <= {"no-source", "no-dates"}


def test_what_it_keeps_is_bounded_whatever_comes() -> None:
    decode = Decoder(PLAIN.item)
    survey = Survey(decode.read, PLAIN, every=1)

    def feed(start: int) -> None:
        for i in range(start, start + 6000):
            more = {f"x{i}-{j}": "y" * 50 for j in range(5)}
            record = news(i, url=f"https://s{i}.example", language=f"l{i}", published=f"never {i}" * 50, **more)
            value = json.dumps(record).encode()
            survey.add(decode(value, None, None, 0, i), value, 0, i)
            survey.add(BadItem("type", f"{i} " * 500), b"{", 0, i)

    feed(0)
    tracemalloc.start()
    feed(6000)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Caches of the decoder (sites) grow too: 65,536 hosts at most, some 200 bytes each.
    assert grown < 6000 * 400
    found = survey.summary()
    assert found.more_sources
    assert found.sources == 4096
    assert len(found.languages) <= 20
    assert len(found.reasons) == 3
    assert len(found.dates.examples) == 3
    assert all(len(one) < 700 for one in (*found.reasons, *found.dates.examples))


def test_it_fits_in_a_line_for_the_log() -> None:
    text = summary_line(survey_of([news(i) for i in range(3)]))
    assert "\n" not in text
    assert text.startswith("3 items, 0 bad; read as: ")
    assert "filled: id 100 %, title 100 %" in text
    assert "dates: 2023-11-14 22:13 to 2023-11-14 22:13 UTC; in order" in text


def test_nothing_that_is_told_can_rewrite_a_terminal() -> None:
    bad = "\x1b]0;owned\x07\u202e"
    hostile = {name: f"{name}{bad}" for name in ("id", "title", "text", "source", "language", "published", f"x{bad}")}
    found = survey_of([hostile, {f"kopf{bad}": bad}, *[{"x": bad}] * 12])
    text = [summary_line(found), *found.samples.values(), *found.reasons, *found.dates.examples, *found.paths]
    text += [one.text for one in found.warnings]
    assert any("owned" in one for one in text)
    assert all(one.isprintable() for one in text)


def test_a_slip_in_the_field_map_is_told_with_the_name_that_is_meant() -> None:
    records = [news(i, title=None, kop=f"Elm {i}") for i in range(3)]
    settings = load_settings(item={"fields": {"title": "Kop"}})
    text = warned(survey_of(records, settings))
    assert text["wrong-title"] == '[item.fields] says title = "Kop", which no record has; did you mean kop?'
    assert not any(kind.startswith("wrong") for kind in warned(survey_of(records)))
    right = load_settings(item={"fields": {"title": "kop", "text": "missing|text"}})
    assert not any(kind.startswith("wrong") for kind in warned(survey_of(records, right)))


def test_an_answer_of_an_api_is_told_to_be_a_list_of_items() -> None:
    """Paths into the list would read only its first item."""
    text = warned(survey_of([{"feed": {"entries": [news(i) for i in range(9)]}}]))["no-fields"]
    assert "jq -c '.feed.entries[]' FILE" in text
    assert "[item.fields]" not in text
