"""`tail` says what became of a record, in a line, whatever the record is."""

from stream_dedup.kafka.record_batch import Record
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import ItemSettings
from stream_dedup.tools.topics.tail import Line, line_of


def shown(value: bytes | None, *headers: tuple[str, bytes], key: bytes | None = None) -> Line:
    return line_of(Record("news", 0, 5, 1000, key, value, headers), Decoder(ItemSettings()))


def test_a_held_back_item_shows_its_original_and_our_verdict() -> None:
    line = shown(
        b'{"id": "b", "title": "Ferry runs again"}',
        ("dedup-verdict", b"unique"), ("dedup-verdict", b"duplicate"), ("dedup-original", b"a"),
    )  # fmt: skip
    assert line == Line(1000, "duplicate", "b", "Ferry runs again", "of a")


def test_an_item_that_was_given_back_says_so() -> None:
    headers = (("dedup-verdict", b"duplicate"), ("dedup-original", b"a"), ("dedup-given-back", b"by hand"))
    assert shown(b'{"id": "b", "title": "T"}', *headers).detail == "of a, given back by hand"


def test_bytes_that_are_no_item_show_what_is_wrong() -> None:
    line = shown(b"{", ("dedup-verdict", b"bad"), ("dedup-reason", b"json"), ("dedup-detail", b"cut short"))
    assert line == Line(1000, "bad", "", "", "json cut short")


def test_a_tombstone_and_a_record_of_the_input_have_a_line() -> None:
    assert shown(None, ("dedup-verdict", b"tombstone"), key=b"b") == Line(1000, "tombstone", "b", "", "")
    assert shown(b'{"id": "b", "title": "T"}') == Line(1000, "", "b", "T", "")
