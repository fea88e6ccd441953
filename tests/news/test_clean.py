"""Markup is removed, plain text stays as it is, and no input raises or hangs."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.errors import ConfigError
from stream_dedup.news import clean as module
from stream_dedup.news.clean import Cleaner, is_html, text_of_html
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import FeedsSettings, ItemSettings
from stream_dedup.tools.feeds.pages import Pages
from stream_dedup.tools.feeds.web import Fetcher

AUTO = Cleaner(ItemSettings())
MENU = "<nav><a href='/'>Home</a> <a href='/sport'>Sport</a></nav>"
BODY = "".join(
    f"<p>On day {n} the bridge over the Elm carried {n * 371} cars, the mayor said.</p>" for n in range(1, 9)
)
PAGE = f"<!doctype html><html><head><title>Bridge &amp; river</title></head><body>{MENU}<article>{BODY}</article>"


MISREAD = "".join(map(chr, range(0xC2, 0xF5)))  # the bytes of UTF-8, read as Latin-1


def auto(text: str) -> str:
    return AUTO("", text)[1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5 < 6, and a<b>c in ordinary prose",
        "Boeing Co <BA> and Philip Morris <MO.N> rose, <I> and <P> fell",
        "Write to <desk@post.example>",
        "R&D at AT&T; &PTA; &",
        "[sic](see below) and a list[0](x)",
        "  two  spaces\n\nand lines ",
        "他说：“1<2”。",
        "<3 <- -> << >>",
    ],
)
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert auto(text) == text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>One</p><p>two</p>", "One two"),
        ("o<b>n</b>e<br>two", "one two"),
        ("<ul><li>a<li>b</ul><table><tr><td>c<td>d</table>", "a b c d"),
        ("a<script>if (1 < 2) b()</script><style>p {}</style><!-- c --><p>d", "a d"),
        ("<p>a<span hidden>b</span><i style='display: none'>c</i><b style='Display:None'>d</b></p>", "a"),
        ("<p>a <noscript>b</noscript><svg><title>c</title></svg><button>Share</button>d</p>", "a d"),
        ("<p title='1 > 0'>a</p>", "a"),
        ("<P>Old</P><BR/>pages", "Old pages"),
        ("<![CDATA[<p>a</p>]]>", "a"),
        ("&lt;p&gt;escaped &amp;amp; twice&lt;/p&gt;", "escaped & twice"),
        ("&amp;amp;lt;p&amp;amp;gt;four times&amp;amp;lt;/p&amp;amp;gt;", "four times"),
        ("In HTML write &amp;lt; for it", "In HTML write &lt; for it"),
        ("caf&eacute; &#8220;x&#x201D; &amp; y", "café “x” & y"),
        ("<p>a&nbsp;b</p>", "a b"),
        ("<b>unclosed <i>and</b> crossed</i>", "unclosed and crossed"),
        ("<p>cut <a href='http", "cut"),
        ("<html><head><title>never closed<p>a</p>", "never closed a"),
        ("<p>a <!-- never closed", "a"),
        ("<p>新闻</p><p>联播</p>", "新闻 联播"),
        # A "<" that begins no tag
        ("<p>a <b and c> d</p>", "a <b and c> d"),
        ("<p>up <5%, x <y and z</p>", "up <5%, x <y and z"),
        ("<p>Philip Morris <MO.N>; <desk@post.example></p>", "Philip Morris <MO.N>; <desk@post.example>"),
        ("<p>if a <b the rest is <i>read</i>", "if a <b the rest is read"),
        ("<p hidden>a</p><td nowrap>b<p data-v-1a>c<o:p>d</o:p>", "b cd"),
        ("<x-y>e<story>f</story><br /><img alt='<b and c>'>g", "ef g"),
        # Elements that are not shown, and are never closed
        ("<p>a<button class='x'>b<p>c", "a b c"),
        ("<p>a<iframe src='x'><p>b", "a b"),
        ("<p>a<iframe src='x'/><p>b", "a b"),
        ("<button>a<p>b</p><button>c</button>d", "a b d"),
        ("<p>a<svg><path d='x'><p>b", "a b"),
    ],
)
def test_html_becomes_what_a_reader_sees(markup: str, text: str) -> None:
    assert auto(markup) == text


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("The [bridge](https://a.example/b?c=d) opens", "The bridge opens"),
        ("it [open](/a)s", "it opens"),
        ('[a](https://e.example/f_(g) "title").', "a."),
        ("![photo](https://e.example/p.jpg)Text", "Text"),
        ("[![photo](https://e.example/p.jpg)](https://e.example)Text", "Text"),
        ("看[[详细]](https://e.example/h)", "看[[详细]]"),
    ],
)
def test_a_markdown_link_is_its_text(markdown: str, text: str) -> None:
    assert auto(markdown) == text


def test_none_leaves_everything_and_html_is_always_html() -> None:
    text = "<p>a</p> [b](https://c.example)"
    assert Cleaner(ItemSettings(markup="none"))("&amp;", text) == ("&amp;", text)
    assert Cleaner(ItemSettings(markup="html"))("", "rose <P> fell") == ("", "rose fell")


def test_of_a_page_the_article_is_left_and_its_title_where_the_item_has_none() -> None:
    clean = Cleaner(ItemSettings(markup="page"))
    title, text = clean("", PAGE)
    assert title == "Bridge & river"
    assert text.startswith("On day 1 the bridge")
    assert "Sport" not in text
    assert clean("T", PAGE)[0] == "T"
    assert clean("", "<p>a</p><p>b</p>") == ("", "a b"), "a feed's piece of HTML is read as in auto"


def test_a_page_without_an_article_still_has_its_text() -> None:
    assert Cleaner(ItemSettings(markup="page"))("", "<html><body><p>Short</p>")[1] == "Short"


def test_without_the_extra_the_setting_is_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    module.article_extractor.cache_clear()
    with pytest.raises(ConfigError, match=r'"page" needs trafilatura: .* -m pip install .*\[pages\]'):
        Decoder(ItemSettings(markup="page"))
    with pytest.raises(ConfigError, match="--pages needs trafilatura"):
        Pages(Fetcher(1, FeedsSettings()), 1000)


def test_the_decoder_cleans_json_and_text_records_alike() -> None:
    record = json.dumps({"id": "1", "title": "A &amp; <i>B</i>", "text": "<p>c</p><p>d</p>"}).encode()
    assert Decoder(ItemSettings())(record, None, 0) == Item("1", "A & B", "c d", "", 0)
    assert Decoder(ItemSettings(preset="text"))(b"<p>c</p><p>d</p>", b"1", 0) == Item("1", "", "c d", "", 0)


def test_many_tags_and_few_give_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    markup = "<h1>A</h1><!-- c --><p>o<b>n</b>e &amp; two</p><script>x < y</script><ul><li>3<li>4</ul>"
    with_a_tree = text_of_html(markup)
    monkeypatch.setattr(module, "MOST_TAGS", 0)
    assert text_of_html(markup) == with_a_tree == "A one & two 3 4"


_WORD = st.from_regex(r"[a-z]{2,8}", fullmatch=True).filter(lambda word: word not in _TAG_WORDS)
_TAG_WORDS = {name.strip("<>/") for name in module._FLAGS.split("|")}


@given(st.lists(_WORD, min_size=3, max_size=12), st.data())
def test_no_word_of_prose_is_lost_to_a_bracket(words: list[str], data: st.DataObject) -> None:
    forms = st.sampled_from(["{} ", "<{} and ", "{}> ", "<b {} ", "<{}.N> ", "<3 {}>", "<p>{} ", "{}</p>"])
    text = "".join(data.draw(forms).format(word) for word in words)
    read = auto(f"<p>{text} end</p>")
    for word in words:
        assert word in read, (text, read)


@given(
    st.sampled_from(["template", "noscript", "iframe", "object", "svg", "button", "select", "textarea"]),
    st.sampled_from(["", " class='x'", "/", " src=a"]),
    st.booleans(),
)
def test_what_follows_an_element_that_is_never_closed_is_read(name: str, rest: str, is_closed_later: bool) -> None:
    later = f"<{name}>hidden</{name}>" if is_closed_later else ""
    assert auto(f"<p>one</p><{name}{rest}>two<p>three</p>{later}four") == "one two three four"


@given(st.text(st.characters(max_codepoint=0x2FF, exclude_characters="<&]:w(" + MISREAD), max_size=200))
def test_without_its_characters_nothing_changes(text: str) -> None:
    assert not is_html(text)
    assert AUTO(text, text) == (text, text)
