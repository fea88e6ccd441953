"""Documents are read as files: one item an entry, whatever the name says, and nothing is lost without a word."""

import gzip
import json
import time
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from stream_dedup.errors import InputError, UsageError
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import ItemSettings
from stream_dedup.tools.demo.newsroom import sample_feed
from stream_dedup.tools.inputs import xml_files
from stream_dedup.tools.inputs.lines import Line, LineReader, item_of
from tests.tools.batch.conftest import invoke

PROLOG = b"<?xml version='1.0' encoding='utf-8'?>"
ATOM = b"<feed><entry><title>d</title></entry></feed>"
ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be")


def rss(*titles: str, line: str = "") -> bytes:
    items = "".join(f"{line}<item><title>{title}</title></item>" for title in titles)
    return f"<rss>{line}<channel>{items}{line}</channel>{line}</rss>".encode()


def read(path: Path, data: bytes, most: int = 10_000) -> list[Line]:
    path.write_bytes(data)
    return list(LineReader([str(path)], most=most))


def titles(lines: list[Line]) -> list[str]:
    return [json.loads(line.value)["title"] if line.fault is None else line.fault.reason for line in lines]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (rss("a", "b", line="\n"), ["a", "b"]),
        (PROLOG + b"\n<!-- <x> -->\n" + rss("a", line="\n") + b"\n<!-- made by a blog -->\n", ["a"]),
        (rss("a") + b"\n\n" + rss("b", "c") + b"\r\n" + ATOM + b"\n", ["a", "b", "c", "d"]),
        (PROLOG + rss("a") + b"\n" + PROLOG + rss("b"), ["a", "b"]),
        (rss("a", line="\n") + rss("b", line="\n") + PROLOG + rss("c"), ["a", "b", "c"]),
        (rss("a") + b"<rss/>" + rss("b"), ["a", "b"]),
        (rss("a") + b'\n{"title": "b"}\n' + rss("c"), ["a", "b", "c"]),
        (rss("a")[:20] + b"\n" + rss("b"), ["xml", "b"]),
        (rss("a", line="\n")[:-5], ["xml"]),
        (rss(), []),
        *((rss("a").decode().encode(name), ["a"]) for name in ENCODINGS),
        (gzip.compress(rss("a", "b"), mtime=0), ["a", "b"]),
        (json.dumps([{"title": "a"}, 3, {"title": "b"}]).encode(), ["a", "type", "b"]),
        (json.dumps([{"title": "a"}], indent=2).encode(), ["a"]),
        (json.dumps({"title": "a", "bodies": [{"value": "x"}]}, indent=2).encode(), ["a"]),
        (b"[]", []),
        (b'{\n"title": "a"\n}\n{\n"title": "b"\n}\n', ["a", "b"]),
        (b'[\n{"title": "a"}\n][\n{"title": "b", "n": NaN},\n]', ["a", "b"]),
        (b'{"title": "a"},\n{"title": "b"},\n', ["a", "b"]),
        (rss("x" * 20_000, "b"), ["too-large", "b"]),
        # Tags in comments and sections of CDATA, on lines of their own.
        (b"<!-- <p> -->\n" + rss("<![CDATA[\n<p>a</p>\n</rss>\n]]>", "b"), ["\n<p>a</p>\n</rss>\n".strip(), "b"]),
        (rss("<![CDATA[\n<?xml version='1.0'?>\n<rss>\n]]>", "b"), ["<?xml version='1.0'?>\n<rss>", "b"]),
        (rss("a") + b"<!--\n<rss>\n<?xml version='1.0'?>\n-->" + rss("b"), ["a", "b"]),
        (rss("a<?xml version='1.0'?>c", "b"), ["ac", "b"]),
        # What servers write before and behind.
        (b"<br />\n<b>Deprecated</b>: x() in <b>/a.php</b><br />\n" + PROLOG + rss("a"), ["a"]),
        (b"\xef\xbb\xbf\xef\xbb\xbf\n " + PROLOG + rss("a"), ["a"]),
        (rss("a") + b"\n</body>\n<script>\na < b</script>\n" + rss("b"), ["a", "b"]),
        # Documents that are cut short, and others behind them.
        (PROLOG + rss("a")[:20] + PROLOG + rss("b")[:-5] + PROLOG + ATOM, ["xml", "xml", "d"]),
        (b"<item><title>a</title><r><item/></r></item><item><title>b</title></item>", ["a", "b"]),
        (rss("a") + b"\nServed in 3 ms", ["a"]),
        (
            b"<!-- <x> -->\n<data><list><item><title>a</title></item><item><title>b</title></item></list></data>",
            ["a", "b"],
        ),
        (b'[{"title": "' + b"x" * 20_000 + b'"}, {"title": "b"}]', ["too-large", "b"]),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.json"])
def test_each_entry_is_an_item(tmp_path: Path, name: str, data: bytes, found: list[str]) -> None:
    assert titles(read(tmp_path / name, data)) == found
    pieces = (data[at : at + 1] for at in range(len(data)))
    assert [*xml_files._documents("a", pieces)] == [*xml_files._documents("a", [data])], "wherever chunks end"


def test_a_document_of_json_feed_gives_its_items_in_one_line_or_many(tmp_path: Path) -> None:
    items = [{"id": "1", "title": "a"}, {"id": "2", "title": "b", "url": "https://oak.example/2"}]
    feed = {"version": "https://jsonfeed.org/version/1.1", "home_page_url": "https://elm.example/", "items": items}
    for indent in (None, 1):
        lines = read(tmp_path / "feed", json.dumps(feed, indent=indent).encode())
        assert titles(lines) == ["a", "b"]
        assert [json.loads(line.value).get("source") for line in lines] == ["https://elm.example/", None]
    assert titles(read(tmp_path / "feed", 2 * (json.dumps(feed) + "\n").encode())) == ["a", "b"] * 2


@pytest.mark.parametrize("name", ["a.rss", "a.atom.gz", "a.xml", "a.newsml", "a.nitf", "a.rdf"])
def test_names_say_xml_too(tmp_path: Path, name: str) -> None:
    data = b"Notice: PHP's text before it in /a.php\n" + rss("a")
    assert titles(read(tmp_path / name, gzip.compress(data) if name.endswith(".gz") else data)) == ["a"]
    refused = invoke("filter", tmp_path / name, "--output", tmp_path / "out.xml").exception
    assert isinstance(refused, UsageError), "and none is written"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"<opml><body/></opml>", "stream-dedup feeds FILE"),
        (b'[{"title": "a"},', "looks like one JSON document, and is none.*jq -c"),
        (b"[" + b" " * 3000 + b"]", "more than 2,000 bytes"),
        (rss("x" * 3000), "more than 2,000 bytes"),
        (rss(*["x"] * 100, line="\n"), "more than 2,000 bytes"),
        (b'{"version": "https://jsonfeed.org/version/1", "items": [' + b" " * 3000 + b"]}", "more than 2,000 bytes"),
    ],
)
def test_what_cannot_be_read_as_a_whole_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, message: str
) -> None:
    monkeypatch.setattr(xml_files, "MOST", 2000)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "a", data)
    many = b"\n".join([rss("x" * 1000)] * 9)
    assert len(read(tmp_path / "a", many)) == 9, "any number of documents, each within the limit"


def test_the_demo_gives_the_same_items_in_xml_as_in_json(tmp_path: Path) -> None:
    elements = {"guid": "id", "title": "title", "link": "url", "source": "source", "pubDate": "published"}
    elements["description"] = "text"
    feed, decode = list(sample_feed(300)), Decoder(ItemSettings())
    parts = ("".join(f"<{name}>{escape(item[of])}</{name}>" for name, of in elements.items()) for item in feed)
    items = [f"<item>{part}</item>" for part in parts]
    documents = (
        "\n".join(map(json.dumps, feed)),
        f"<rss><channel>{''.join(items)}</channel></rss>",
        "\n".join(f"<rss><channel>{item}</channel></rss>" for item in items),
    )
    read_items = [[item_of(decode, line) for line in read(tmp_path / "a", text.encode())] for text in documents]
    assert all(isinstance(item, Item) for item in read_items[0])
    assert read_items[0] == read_items[1] == read_items[2]


@pytest.mark.parametrize(
    "part", [b"<![CDATA[", b"<!--", b"<?xml ", b"<rss", b"<rss>", b"</rss>", b"<p>", b"<", b"<item>"]
)
def test_any_markup_is_split_in_linear_time(part: bytes) -> None:
    def seconds(count: int) -> float:
        data, start = part * count, time.process_time()
        chunks = [data[at : at + 2**12] for at in range(0, len(data), 2**12)]
        assert b"".join(xml_files._documents("a", chunks)) == data
        return time.process_time() - start

    count = 100_000 // len(part)
    assert seconds(4 * count) < 40 * seconds(count) + 1


def test_a_bulk_request_gives_each_document_the_id_of_its_action(tmp_path: Path) -> None:
    bulk = b'{"index": {"_index": "news", "_id": "a"}}\n{"title": "T"}\n{"create": {}}\n{"title": "U"}\n'
    lines = read(tmp_path / "bulk.ndjson", bulk)
    assert [line.value for line in lines] == [b'{"_id":"a","title": "T"}', b'{"title": "U"}']


@pytest.mark.parametrize(
    "script",
    [
        b'var news = [{"title": "a"}, {"title": "b"}];\n',
        b'window.YTD.tweets.part0 = [\n{"tweet": {"full_text": "a", "title": "a"}},\n{"title": "b"}\n]',
        b'export default {"articles": [{"title": "a"}, {"title": "b"}]};',
        b'/**/ callback({"articles": [{"title": "a"}, {"title": "b"}]});\n',
    ],
)
def test_a_script_is_read_by_what_it_assigns(tmp_path: Path, script: bytes) -> None:
    (tmp_path / "news.js").write_bytes(script)
    reader = LineReader([str(tmp_path / "news.js")])
    assert [item.title for line in reader if isinstance(item := item_of(Decoder(ItemSettings()), line), Item)] == [
        "a",
        "b",
    ]
    assert "is a script" in reader.notes[0]


def test_xml_without_news_is_refused_where_it_stands_alone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"<urlset> is neither a feed .* convert it to JSON Lines"):
        read(tmp_path / "a.xml", b"<urlset><url><loc>x</loc></url></urlset>")
