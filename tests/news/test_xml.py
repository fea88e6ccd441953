"""XML becomes the JSON that its publisher means, and nothing of it is lost without a word."""

import pytest

from stream_dedup.errors import BadItem
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.news.xml import entries
from stream_dedup.settings import ItemSettings

DECODE = Decoder(ItemSettings())
MONDAY = 1704067200000
DATE = "2024-01-01T00:00:00Z"
RSS = (
    "<rss xmlns:content='http://purl.org/rss/1.0/modules/content/' xmlns:dc='http://purl.org/dc/elements/1.1/' "
    "xmlns:media='http://search.yahoo.com/mrss/' xmlns:x='urn:x'><channel><link>https://elm.example/</link>{}"
    "</channel></rss>"
)
ITEM = f"<item><guid>7</guid><title>T</title><description>Body</description><pubDate>{DATE}</pubDate></item>"
ATOM = "<feed xmlns='http://www.w3.org/2005/Atom'>{}</feed>"
NITF = (
    "<nitf><head><title>Slug</title><docdata><doc-id id-string='7'/><date.issue norm='20240101T000000Z'/>"
    "<doc.copyright holder='elm.example'/></docdata></head><body><body.head><hedline><hl1>T</hl1></hedline></body.head>"
    "<body.content>{}</body.content></body></nitf>"
)
G2 = (
    "<newsMessage xmlns='http://iptc.org/std/nar/2006-10-01/'><itemSet><newsItem guid='7'><itemMeta>"
    f"<provider literal='elm.example'/><versionCreated>{DATE}</versionCreated></itemMeta><contentMeta><headline>T"
    "</headline></contentMeta><contentSet>{}</contentSet></newsItem></itemSet></newsMessage>"
)
NEWSML = (
    "<NewsML><NewsItem><Identification><NewsIdentifier><PublicIdentifier>7</PublicIdentifier></NewsIdentifier>"
    "</Identification><NewsManagement><ThisRevisionCreated>20240101T000000Z</ThisRevisionCreated></NewsManagement>"
    "<NewsComponent><NewsLines><HeadLine>T</HeadLine></NewsLines><AdministrativeMetadata><Provider>"
    "<Party FormalName='elm.example'/></Provider></AdministrativeMetadata><ContentItem><DataContent>{}</DataContent>"
    "</ContentItem></NewsComponent></NewsItem></NewsML>"
)
# A document of each format, of the same item.
DOCUMENTS = {
    "rss 2.0": RSS.format(ITEM),
    "rss 0.91": f"<rss version='0.91'><channel><link>https://elm.example/</link>{ITEM}</channel></rss>",
    "rss 1.0": "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/' "
    "xmlns:dc='http://purl.org/dc/elements/1.1/'><channel><link>https://elm.example/</link></channel>"
    f"<item rdf:about='7'><title>T</title><description>Body</description><dc:date>{DATE}</dc:date></item></rdf:RDF>",
    "rss, the text is encoded": RSS.format(
        ITEM.replace("Body", "B")
        .replace("</item>", "<content:encoded><![CDATA[<p>Body</p>]]></content:encoded></item>")
    ),
    "rss, dc:date": RSS.format(ITEM.replace("pubDate", "dc:date")),
    "rss, an item alone": ITEM.replace("</item>", "<link>https://elm.example/7</link></item>"),
    "atom": ATOM.format(
        "<entry><id>7</id><title type='html'>&lt;b&gt;T&lt;/b&gt;</title><link rel='self' href='https://feeds.example/'/>"
        f"<link href='https://elm.example/7'/><updated>{DATE}</updated><content type='xhtml'>"
        "<div xmlns='http://www.w3.org/1999/xhtml'><script/><p>Body</p></div></content></entry>"
    ),
    "nitf": NITF.format("<p>Body</p>"),
    "newsml-g2, nitf": G2.format(f"<inlineXML>{NITF.format('<p>Body</p>')}</inlineXML>"),
    "newsml-g2, xhtml": G2.format(
        "<inlineXML><html><head><title>x</title></head><body><p>Body</p></body></html></inlineXML>"
    ),
    "newsml-g2, text": G2.format("<inlineData>Body</inlineData>"),
    "newsml 1": NEWSML.format("<p>Body</p>"),
    "newsml 1, nitf": NEWSML.format(NITF.format("<p>Body</p>")),
}  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_document_of_each_format_is_the_item_of_its_publisher(document: str) -> None:
    assert item_of(document) == Item("7", "T", "Body", "elm.example", MONDAY)


def item_of(document: str | bytes) -> Item:
    item = DECODE(document.encode() if isinstance(document, str) else document, None, None)
    assert isinstance(item, Item), item
    return item


def title(inner: str) -> str:
    """The title that is read of an RSS item."""
    return str(entries(RSS.format(f"<item><title>{inner}</title><guid>7</guid></item>").encode())[0]["title"])


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("AT&T rocks & rolls", "AT&T rocks & rolls"),
        ("5 < 6 and <3", "5 < 6 and <3"),
        ("caf&eacute;&nbsp;&unknown; &amp;amp;", "caf\xe9\xa0&unknown; &amp;"),
        ("<![CDATA[a & b &eacute; <b>c</b>]]>", "a & b &eacute; <b>c</b>"),
        ("one\x00two\x0bthree", "one two three"),
        ("a <b:>c</b:> <x:2>d</x:2>", "a <div>c</div> <div>d</div>"),
        ("a <b>bold</b> &lt;tag&gt;", "a <b>bold</b> &lt;tag&gt;"),
        ("x &lt; y", "x < y"),
        ("x &lt; <i>y</i>", "x &lt; <i>y</i>"),
        ("<!-- & -->plain", "plain"),
        ("it&#146;s &#0;&#27;&#xD800;&copy", "it’s \ufffd\ufffd&copy"),
    ],
)
def test_what_publishers_break_is_repaired(written: str, meant: str) -> None:
    assert title(written) == meant


@pytest.mark.parametrize(
    ("prolog", "encoding"),
    [
        ("", "utf-8"), ("", "utf-8-sig"), ("", "cp1252"), ("utf-8", "cp1252"), ("iso-8859-1", "cp1252"),
        ("UTF-16", "utf-8"), ("UTF-16", "utf-16"), ("utf-8", "utf-16"), ("windows-1252", "cp1252"), ("x-foo", "utf-8"),
        ("gb18030", "gb18030"), ("rot13", "utf-8"), ("koi8-zz", "utf-8"),
    ],
)  # fmt: skip
def test_no_encoding_costs_a_letter(prolog: str, encoding: str) -> None:
    declared = f"<?xml version='1.0' encoding='{prolog}'?>" if prolog else ""
    document = (declared + RSS.format("<item><title>Café “é”</title></item>")).encode(encoding)
    assert item_of(document).title == "Café “é”"


FERRY, CAFE = "Паром не ходит до понедельника, сообщил мэр города", "L'été à Noël, déjà vu: café"


@pytest.mark.parametrize(
    ("text", "declared", "charset", "encoding", "said"),
    [
        (FERRY, "windows-1251", "", "utf-8", "says that it is in windows-1251, and is in UTF-8"),
        (FERRY, "iso-8859-1", "", "utf-8", "says that it is in iso-8859-1, and is in UTF-8"),
        (CAFE, "iso-8859-1", "", "utf-8", "says that it is in iso-8859-1, and is in UTF-8"),
        (FERRY, "utf-8", "iso-8859-1", "utf-8", "says that it is in iso-8859-1, and is in UTF-8"),
        (FERRY, "utf-8", "windows-1251", "cp1251", ""),
        (FERRY, "windows-1251", "koi8-r", "koi8-r", ""),
        (FERRY, "windows-1251", "iso-8859-1", "cp1251", ""),
        (FERRY, "windows-1251", "utf-8", "cp1251", ""),
        (FERRY, "utf-8", "", "cp1251", "is not in UTF-8: what does not fit is read as Windows-1251"),
        (FERRY, "", "", "koi8-r", "is not in UTF-8: what does not fit is read as KOI8-R"),
        ("Το νέο πλοίο φεύγει την Δευτέρα από το λιμάνι", "", "", "cp1253", "read as Windows-1253"),
        ("新桥经过两年的施工后于周一通车，市长在仪式上表示。", "", "", "gb18030", "read as GB18030"),
        ("Nový most přes řeku byl v pondělí otevřen po dvou letech práce", "", "", "cp1250", "read as Windows-1250"),
        (CAFE, "utf-8", "", "cp1252", "is not in UTF-8: what does not fit is read as cp1252"),
    ],
)
def test_a_document_is_read_as_what_it_is_and_that_is_said(
    text: str, declared: str, charset: str, encoding: str, said: str
) -> None:
    prolog = f"<?xml version='1.0' encoding='{declared}'?>" if declared else ""
    document = (prolog + RSS.format(f"<item><title>{text}</title></item>")).encode(encoding)
    notes: list[str] = []
    assert entries(document, charset, notes.append)[0]["title"] == text
    assert said in "".join(notes)
    assert bool(notes) == bool(said)


def test_utf_8_with_a_broken_letter_keeps_the_others() -> None:
    document = RSS.format("<item><title>Café \udce9té</title></item>").encode("utf-8", "surrogateescape")
    assert item_of(document).title == "Café été"


@pytest.mark.parametrize(
    "broken",
    ["<title>A<b:>c</b:></title>", "<title>A<x://a>c</title>", "<a:b xmlns:a='http://&#xD800;a/'/><title>Ac</title>"],
)
def test_names_that_lxml_cannot_tell_end_no_reader(broken: str) -> None:
    [entry] = entries(RSS.format(f"<item>{broken}</item>").encode())
    assert entry["title"].startswith("A")


@pytest.mark.parametrize(
    ("document", "detail"),
    [
        (RSS.format("<item><title>A</item><item><title>B</title></item>"), "stands within another"),
        (RSS.format(ITEM)[:-8], "cut short"),
        (RSS.format("<item><title>A</title>" + "<a>" * 300 + "</a>" * 300 + "</item>" + ITEM), "256 deep"),
        (RSS.format("<item><title><![CDATA[A</title></item>"), "CDATA section is not closed$"),
        (RSS.format("<item>" + 150_000 * "<a></a>" + "</item>"), "200,000 tags$"),
        (RSS.format(200_001 * "<item/>"), "200,000 entries"),
        (RSS.format("<item><title>A</title>" + 1_000_001 * "&" + "</item>"), "1,000,000 characters"),
        ("<!DOCTYPE rss [<!ENTITY a 'b'>]>" + RSS.format("<item><title>&a;</title></item>"), "declares entities"),
        ("<opml><body><outline xmlUrl='https://a.example/'/></body></opml>", "stream-dedup feeds FILE"),
        ("<!DOCTYPE html><html><body>502</body></html>", "<html> is neither a feed"),
        (RSS.format(ITEM.replace("</item>", "</a></b></c></d></e></item>" + ITEM)), "too many end tags"),
        ("<rss><item><title a='b</title></item></rss>", "within a tag"),
        ("<rss><item/></rss><rss><item/>", "cut short"),
        ("<1>", "no element"),
    ],
)
def test_what_would_lose_an_entry_is_refused(document: str, detail: str) -> None:
    with pytest.raises(BadItem, match=detail) as raised:
        entries(document.encode())
    assert raised.value.reason == "xml"


@pytest.mark.parametrize("behind", ["", "</body></html>", "<script>a < b</script>", "<!-- by a blog --> & more", "<?x"])
def test_no_document_of_several_is_lost_and_what_servers_append_costs_nothing(behind: str) -> None:
    two = f"<?xml version='1.0'?><!DOCTYPE rss SYSTEM 'rss.dtd'>{RSS.format(ITEM)}{ATOM.format('<entry/>')}{behind}"
    assert [entry.get("guid") for entry in entries(two.encode())] == ["7", None]


def test_elements_of_foreign_namespaces_are_neither_title_nor_text() -> None:
    item = "<item><title>T</title><x:title>X</x:title><media:title>M</media:title></item>"
    [entry] = entries(RSS.format(item).encode())
    assert entry == {"title": "T", "x:title": "X", "media:title": "M", "source": "https://elm.example/"}


def test_a_description_of_media_counts_where_there_is_no_other_text() -> None:
    media = "<media:group><media:description>M</media:description></media:group>"
    bare, full = entries(RSS.format(f"<item><title>T</title>{media}</item>{ITEM[:-7]}{media}</item>").encode())
    assert bare["summary"] == "M"
    assert "summary" not in full


@pytest.mark.parametrize(
    "document", [NITF, G2.replace("{}", f"<inlineXML>{NITF}</inlineXML>"), NEWSML.replace("{}", NITF)]
)
def test_an_empty_body_is_no_reason_to_take_what_is_around_it(document: str) -> None:
    assert item_of(document.format("")) == Item("7", "T", "", "elm.example", MONDAY)


def test_who_registered_the_id_of_nitf_is_its_source_where_no_other_is_named() -> None:
    document = NITF.format("").replace("<doc.copyright holder='elm.example'/>", "")
    assert item_of(document.replace("<doc-id ", "<doc-id regsrc='Elm Wire' ")).source == "elm wire"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<block></block>", ""),
        ("<block><p/></block>", ""),
        ("<block>Short.</block>", "Short."),
        ("<hl2>One</hl2><byline>Two</byline><p>Three <person>Four</person>’s</p>", "One Two Three Four’s"),
    ],
)
def test_a_block_of_nitf_is_no_word_and_joins_none(body: str, text: str) -> None:
    item = item_of(NITF.format(body))
    assert (item.title, item.text) == ("T", text)


NAMESPACES = " ".join(f"xmlns:a{number}='urn:{number}'" for number in range(2500))


@pytest.mark.parametrize(
    ("item", "tag"),
    [
        ("<item><description>{}</description></item>", "<a{0}:p a{0}:x='y'>z</a{0}:p>"),
        ("{}", "<item><description><a{0}:p>z</a{0}:p></description></item>"),
    ],
)
def test_namespaces_are_not_repeated_for_each_tag(item: str, tag: str) -> None:
    """58 KB took 70 s: each tag of a text was written with all 2,500 declarations."""
    items = item.format("".join(map(tag.format, range(2500))))
    found = entries(f"<rss {NAMESPACES}><channel>{items}</channel></rss>".encode())
    text = "".join(entry["description"] for entry in found)
    assert (text.count("z"), "xmlns" in text) == (2500, False)
    assert len(text) < 20 * 2500


def test_an_item_within_another_is_none_where_each_tag_is_closed() -> None:
    related = "<related><item><title>R</title></item></related>"
    found = entries(RSS.format(f"<item><title>A</title>{related}</item><item><title>B</title></item>").encode())
    assert [entry["title"] for entry in found] == ["A", "B"]


@pytest.mark.parametrize("name", ["nbsp", "euro"])
def test_entities_of_html_may_be_declared(name: str) -> None:
    document = f"<!DOCTYPE rss [<!ENTITY nbsp '&#160;'> <!ENTITY {name} SYSTEM 'file:///etc/passwd'>]>"
    [entry] = entries((document + RSS.format(f"<item><title>4&{name};m</title></item>")).encode())
    assert entry["title"] in ("4\xa0m", "4€m")


FULL = "<item><title>T</title><description>Body</description>{}</item>"


@pytest.mark.parametrize(
    ("members", "link"),
    [
        ("<link>/7</link>", "https://elm.example/7"),
        ("<link>news/7?a</link>", "https://elm.example/news/7?a"),
        ("<link>//oak.example/7</link>", "https://oak.example/7"),
        ("<link xml:base='https://oak.example/a/'>7</link>", "https://oak.example/a/7"),
        ("<link/><guid>https://oak.example/7</guid>", "https://oak.example/7"),
        ("<link></link><guid isPermaLink='true'>https://oak.example/7</guid>", "https://oak.example/7"),
        ("<link>http://[</link>", "http://["),
    ],
)
def test_links_are_absolute(members: str, link: str) -> None:
    document = RSS.format(FULL.format(members))
    assert entries(document.encode())[0]["link"] == link
    assert item_of(document).source == (link.split("/")[2] if link[-1] != "[" else "")


@pytest.mark.parametrize(
    ("members", "source"),
    [
        ("", "elm.example"),
        ("<guid isPermaLink='false'>https://cdn.example/7</guid>", "elm.example"),
        ("<enclosure url='https://cdn.example/7.mp3'/>", "elm.example"),
        ("<source url='https://oak.example/rss'>Oak</source><source>Ash</source>", "oak.example"),
        ("<source url='/rss'>Oak</source>", "elm.example"),
    ],
)
def test_an_item_without_a_link_has_the_site_of_its_channel(members: str, source: str) -> None:
    assert item_of(RSS.format(FULL.format(members))).source == source


@pytest.mark.parametrize(
    ("links", "source"),
    [
        ("<link rel='self' href='https://api.example/7'/><link rel='edit' href='//api.example/7'/>", "elm.example"),
        ("<link rel='enclosure' href='https://cdn.example/7.mp3'/><link href='https://oak.example/7'/>", "oak.example"),
        ("<link rel='alternate' href='/7'/>", "elm.example"),
        ("<link xml:base='https://oak.example/' href='7'/>", "oak.example"),
    ],
)
@pytest.mark.parametrize("site", ["<link rel='self' href='https://x.example/'/><link href='https://elm.example/'/>{}",
                                  "{}<link rel='alternate' href='https://elm.example/'/>"])  # fmt: skip
def test_the_site_of_an_atom_entry_is_neither_its_enclosure_nor_its_editor(links: str, source: str, site: str) -> None:
    entry = f"<entry><id>urn:7</id><title>T</title>{links}<content>Body</content><updated>{DATE}</updated></entry>"
    assert item_of(ATOM.format(site.format(entry))).source == source


@pytest.mark.parametrize(
    "dates",
    [
        f"<a10:updated xmlns:a10='http://www.w3.org/2005/Atom'>{DATE}</a10:updated>",
        f"<pubDate>Someday</pubDate><dc:date>{DATE}</dc:date>",
        f"<pubDate/><pubDate>Someday</pubDate><pubDate>{DATE}</pubDate>",
        f"<d:created xmlns:d='http://purl.org/dc/terms/'>{DATE}</d:created>",
    ],
)
def test_the_first_date_that_can_be_read_counts(dates: str) -> None:
    assert item_of(RSS.format(FULL.format(f"<link>/7</link>{dates}"))).time == MONDAY


@pytest.mark.parametrize("name", ["issued", "modified", "created", "published", "updated"])
def test_dates_of_atom_0_3_are_read(name: str) -> None:
    entry = f"<entry><id>7</id><title>T</title><link href='/7'/><{name}>{DATE}</{name}><content>x</content></entry>"
    assert item_of(f"<feed xmlns='http://purl.org/atom/ns#'>{entry}</feed>").time == MONDAY


@pytest.mark.parametrize(
    "body",
    [
        "<body xmlns='http://www.w3.org/1999/xhtml'><p>{}</p></body>",
        "<h:body xmlns:h='http://www.w3.org/1999/xhtml'><h:p>{}</h:p></h:body>",
        "<content:encoded>{}</content:encoded>",
        "<y:full-text xmlns:y='http://news.yandex.ru'>{}</y:full-text>",
    ],
)
def test_the_fullest_text_of_an_item_counts(body: str) -> None:
    text = "The bridge over the Elm opened to traffic on Monday after two years of work."
    assert item_of(RSS.format(FULL.format(f"<guid>7</guid>{body.format(text)}"))).text == text


ARTICLE = "<article id='{0}'><title>Elm {0}</title><body><p>Bridge &amp; {0}</p><p>opens.</p></body></article>"
THREE = "".join(ARTICLE.format(number) for number in "123")


@pytest.mark.parametrize(
    ("document", "ids"),
    [
        (f"<news><title>Wire</title>{THREE}</news>", "123"),
        (f"<news><day><list>{THREE}</list></day><day><list>{ARTICLE.format(4)}</list></day></news>", "1234"),
        (f"<news>{ARTICLE.format(1)}</news>", "1"),
        (THREE, "123"),
        (ARTICLE.format(1), "1"),
    ],
)
def test_other_xml_is_read_by_the_elements_that_look_like_articles(document: str, ids: str) -> None:
    notes: list[str] = []
    read = entries(document.encode(), note=notes.append)
    assert [each["id"] for each in read] == list(ids)
    assert read[0] == {"id": "1", "title": "Elm 1", "body": "<p>Bridge &amp; 1</p><p>opens.</p>"}
    assert notes == ["is read as one item for each <article>, as it is no known kind of XML"]


def test_no_article_of_other_xml_is_lost_beside_those_of_another_name_or_depth() -> None:
    story = "<story><title>{0}</title><body>Text {0}.</body></story>"
    section = f"<section><title>Towns</title>{story.format('B')}{story.format('C')}</section>"
    lead, date = f"<lead>{story.format('A')[7:-8]}</lead>", "<title>Elm Wire</title><date>2026-01-05</date>"
    notes: list[str] = []
    read = entries(
        f"<paper>{date}{lead}{section}<section>{story.format('D')}</section></paper>".encode(), "", notes.append
    )
    assert [each["title"] for each in read] == list("ABCD")
    assert "one item for each <lead>, <story>" in notes[0]


@pytest.mark.parametrize(
    "article", ["<story id='{0}' title='Elm {0}'>Text {0}.</story>", "<story id='{0}' headline='Elm {0}' body='x'/>"]
)
def test_a_headline_may_be_an_attribute(article: str) -> None:
    read = entries(f"<news>{article.format(1)}{article.format(2)}</news>".encode())
    assert [each["id"] for each in read] == ["1", "2"]
    assert all(each.get("text", each.get("body")) for each in read)
    with pytest.raises(BadItem, match="neither a feed"):
        entries(b"<doc><field name='id'>7</field><field name='kop'>Elm</field></doc>")


def test_an_article_with_sections_is_not_taken_apart() -> None:
    sections = 2 * "<section><title>S</title><text>short</text></section>"
    [read] = entries(f"<report><title>T</title><body>A text that is longer.</body>{sections}</report>".encode())
    assert (read["title"], read["body"]) == ("T", "A text that is longer.")
    article = f"<article id='{{}}'><title>T</title><content>{sections}</content></article>"
    read = entries(f"<list>{article.format(1)}{article.format(2)}</list>".encode())
    assert [each["id"] for each in read] == ["1", "2"]


def test_a_feed_may_have_its_names_in_capitals() -> None:
    upper = "<RSS><CHANNEL><ITEM><TITLE>T</TITLE><PubDate>now</PubDate><GUID>7</GUID></ITEM></CHANNEL></RSS>"
    assert entries(upper.encode()) == [{"title": "T", "pubdate": "now", "guid": "7"}]


def test_an_item_of_a_headline_and_a_link_has_the_link_as_its_id() -> None:
    link = "https://elm.example/7"
    assert entries(f"<rss><item><title>T</title><link>{link}</link></item></rss>".encode())[0]["id"] == link
