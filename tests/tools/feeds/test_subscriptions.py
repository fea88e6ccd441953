"""Lists of feeds: OPML, plain files, URLs; what is wrong is named with its place, and skipped."""

import re
from pathlib import Path

import pytest

from stream_dedup.errors import InputError, UsageError
from stream_dedup.tools.addresses import public_url
from stream_dedup.tools.feeds.subscriptions import read_sources

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


def test_names_of_opml_count_in_either_case_and_in_a_namespace(tmp_path: Path) -> None:
    path = tmp_path / "feeds.opml"
    for text in (
        OPML.replace("<opml", "<opml xmlns='http://opml.org/spec2'"),
        OPML.upper().replace("XML VERSION", "xml version").replace("&AMP;", "&amp;").replace("HTTPS", "https"),
        OPML.replace("opml", "o:opml").replace("outline", "o:outline").replace("<o:opml", "<o:opml xmlns:o='urn:o'"),
        OPML.replace("xmlUrl", "xmlurl"),
    ):
        path.write_text(text)
        found = [url.lower() for url in read_sources([str(path)])]
        assert found == ["https://a.example/rss?x=1&y=2", "https://b.example/?x&y"], text


def test_the_urls_of_newsboat_are_read(tmp_path: Path) -> None:
    path = tmp_path / "urls"
    path.write_text(
        '# mine\n\nhttps://a.example/rss sea "far away" "~The Sea"\n"https://b.example/#x" !\n'
        '"query:Unread:unread = \\"yes\\""\nexec:~/bin/get -u ann:s3cret\nfilter:~/bin/f:https://c.example/\n'
        "https://d.example/rss#top\n"
    )
    reports: list[str] = []
    assert read_sources([str(path)], reports.append) == [
        "https://a.example/rss", "https://b.example/#x", "https://d.example/rss#top"
    ]  # fmt: skip
    assert [line.partition("urls, ")[2] for line in reports] == [
        f"line {number}: '{kind}:...' is no address of a feed; write https://HOST/PATH; it is skipped"
        for number, kind in ((5, "query"), (6, "exec"), (7, "filter"))
    ]


WRONG = [
    ("https://a.example/\nwww.b.example/rss\n", "line 2: 'www.b.example/rss' is no address"),
    ("ftp://ann:s3cret@a.example/rss\n", "line 1: 'ftp://a.example/rss' is"),
    ("ann:s3cret@a.example/rss?key=s3cret\n", r"line 1: 'a.example/rss\?key=\*\*\*' is"),
    ("https://a.example:x/\n", "line 1:"),
    (OPML.replace("https://a.example/rss", "a.example"), "line 2: 'a.example"),
    (OPML.replace("https://a.", "https://&#xD800;"), "line 2: 'https://\ufffd"),
    (OPML.replace("https://a.example/rss?x=1&amp;y=2", ""), "line 2: '' is no address"),
    ("https://xn--a.example/", "line 1:"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_no_address_is_named_and_skipped(tmp_path: Path, text: str, message: str) -> None:
    path, reports = tmp_path / "feeds", list[str]()
    path.write_text(text)
    found = read_sources([str(path), "https://other.example/"], reports.append)
    assert found[-1] == "https://other.example/"
    [line] = reports
    assert re.search(message, line)
    assert "s3cret" not in line
    assert line.endswith("; it is skipped")


def test_of_many_wrong_lines_the_first_are_reported(tmp_path: Path) -> None:
    (tmp_path / "feeds").write_text("a line of prose\n" * 30 + "https://a.example/\n")
    reports = list[str]()
    read_sources([str(tmp_path / "feeds")], reports.append)
    assert len(reports) == 11
    assert reports[-1].startswith("20 more lines")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a line of prose\n" * 30, "feeds, line 1: 'a' is no address of a feed; write"),
        ("<!-- none -->", "is XML, but no OPML"),
        ("<rss></rss>", "is XML, but no OPML; to poll a feed, name its URL"),
        ("# none yet\n", "name no feed"),
        (None, "cannot read"),
    ],
)
def test_a_file_without_a_feed_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "feeds"
    if text is not None:
        path.write_text(text)
    with pytest.raises((InputError, UsageError), match=message):
        read_sources([str(path)])


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@a.example/f?author=ann&access_token=1&Key=2&sig=3&monkey=4",
         "https://a.example/f?author=ann&access_token=***&Key=***&sig=***&monkey=4"),
        ("https://a.example/f?X-Goog-Signature=1&X-Goog-Date=2&x-amz-security-token=3&X-Amz-Credential=4&b=5",
         "https://a.example/f?X-Goog-Signature=***&X-Goog-Date=***&x-amz-security-token=***&X-Amz-Credential=***&b=5"),
        ("https://a.example/f?code=1&jwt=2&session=3&access=4&country_code=de&keyword=sea&passage=7",
         "https://a.example/f?code=***&jwt=***&session=***&access=***&country_code=de&keyword=sea&passage=7"),
        ("https://a.example/f;jsessionid=1?accessToken=2&%74oken=3&PHPSESSID=4&apiKey=5&a=b?token=6",
         "https://a.example/f;jsessionid=***?accessToken=***&%74oken=***&PHPSESSID=***&apiKey=***&a=b?token=6"),
        ("https://a.example/@ann/f?user=ann&channel_id=UC1234567890", "https://a.example/@ann/f?user=ann&channel_id=UC1234567890"),
        ("https://u:p/w@a.example/", "https://a.example/"),
        ("https://a.example/f?token=a?b/c", "https://a.example/f?token=***"),
        ("https://u:p#w@a.example/", "https://a.example/"),
        ("u:p@a.example/f", "a.example/f"),
        ("http://[::1/f?token=1", "http://[::1/f?token=***"),
    ],
)  # fmt: skip
def test_secrets_are_not_shown(url: str, shown: str) -> None:
    assert public_url(url) == shown


@pytest.mark.parametrize(
    "line",
    ["ftp://u:p4ss@a.example/", "u:p4ss@a.example/rss", "https://u:p4ss/x@a.example/", "ftp://a.example?key=p4ss"],
)
def test_a_wrong_address_is_named_without_its_password(tmp_path: Path, line: str) -> None:
    path = tmp_path / "feeds"
    path.write_text(f"{line}\n")
    for name in (str(path), line):
        with pytest.raises(InputError, match=r"is no address of a feed; write https://HOST/PATH|cannot read") as caught:
            read_sources([name])
        assert "p4ss" not in str(caught.value)
        assert "a.example" in str(caught.value)
