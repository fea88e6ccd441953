"""Lists of feeds: OPML, plain files, URLs; what is wrong is named with its place."""

from pathlib import Path

import pytest

from stream_dedup.errors import InputError, UsageError
from stream_dedup.feeds.sources import public_url, read_sources

OPML = """<?xml version="1.0"?><opml version="2.0"><body><outline text="Sea">
<outline text="A" type="rss" xmlUrl="https://a.example/rss?x=1&amp;y=2"/><outline text="B" xmlUrl="feed:https://b.example/?x&y"/>
</outline><outline text="no feed"/></body></opml>"""


def test_lists_are_read_in_their_order(tmp_path: Path) -> None:
    opml, plain = tmp_path / "feeds.opml", tmp_path / "feeds.txt"
    opml.write_text(OPML)
    plain.write_text("# ours\nhttps://c.example/#top\n\n https://a.example/rss?x=1&y=2  # again\n")
    assert read_sources([str(opml), "http://d.example/", str(plain)]) == [
        "https://a.example/rss?x=1&y=2", "https://b.example/?x&y", "http://d.example/", "https://c.example/#top"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("https://a.example/\nwww.b.example/rss\n", "line 2: 'www.b.example/rss' is no address"),
        ("ftp://a.example/rss\n", "line 1: 'ftp"),
        ("https://a.example:x/\n", "line 1:"),
        (OPML.replace("https://a.example/rss", "a.example"), "line 2: 'a.example"),
        (OPML.replace("https://a.", "https://&#xD800;"), "line 2: 'https://\ufffd"),
        ("https://xn--a.example/", "line 1:"),
        ("<!-- none -->", "is XML, but no OPML"),
        ("<rss></rss>", "is XML, but no OPML; to poll a feed, name its URL"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "feeds"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_sources([str(path)])


def test_a_list_without_feeds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "feeds.txt"
    path.write_text("# none yet\n")
    with pytest.raises(UsageError, match="name no feed"):
        read_sources([str(path)])
    with pytest.raises(InputError, match="cannot read"):
        read_sources([str(tmp_path / "missing.opml")])


def test_secrets_are_not_shown() -> None:
    shown = public_url("https://u:p@a.example/f?author=ann&access_token=1&Key=2&sig=3&monkey=4")
    assert shown == "https://a.example/f?author=ann&access_token=***&Key=***&sig=***&monkey=4"
