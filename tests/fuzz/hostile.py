"""305 patterns of text, by name, on which code shows it if its time is not linear in the length.

`text_of(name, size)` makes a text of a pattern. Most are one short piece, repeated; the others do not repeat.
"""

import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import count, islice
from random import Random

_WORDS = "The bridge over the Elm opened on Monday, the mayor said. "

PIECES = {
    # prose, and what is nearly prose
    "sentences": _WORDS, "one sentence": "the bridge over the Elm opened on Monday and ", "lines": "Opened on Monday\n",
    "wrapped lines": "the bridge over the Elm opened on Monday and nobody was there in\n",
    "paragraphs of text": _WORDS + "\n\n", "capitals": "BRIDGE OPENS ", "initials": "A. B. ",
    "abbreviations": "Mr. Gov. p.m. ", "lists": "- one\n* two\n1. three\n",
    # one character
    "one word": "a", "one capital": "A", "one letter of two bytes": "é", "letters that grow": "ﷺ",
    "letters that shrink": "\u1e9e", "ligatures": "ﬃ", "spaces": " ", "tabs": "\t", "line breaks": "\n",
    "carriage returns": "\r", "wide spaces": "\u2003", "no-break spaces": "\u00a0", "zero-width spaces": "\u200b",
    "joiners": "\u200d", "non-joiners": "\u200c", "grapheme joiners": "\u034f", "soft hyphens": "\u00ad",
    "byte order marks": "\ufeff", "marks of direction": "\u202e", "replacement characters": "\ufffd",
    "private use": "\ue000", "unassigned": "\U000e0fff", "nulls": "\0", "escapes": "\x1b[31m",
    "lone surrogates": "\ud800",
    # marks
    "accents": "\u0301", "two accents": "\u0301\u0316", "three accents": "\u0316\u0301\u0327",
    "accents in disorder": "\u0301" * 40 + "\u0316" * 40, "letters with accents": "a\u0301\u0316\u0327",
    "letters with 29 accents": "a" + "\u0301" * 29, "letters with 30 accents": "a" + "\u0316" * 30,
    "letters with 31 accents": "a" + "\u0301" * 31, "composed letters with accents": "é\u0316\u0327",
    "dotted capitals": "İ", "dots above": "i\u0307", "vowel marks": "م\u064e\u0651", "vowel marks alone": "\u064c",
    "vowel marks in disorder": "\u064c\u064b", "points": "ש\u05b8\u05c1", "half-width voice marks": "\uff9e",
    "kana with voice marks": "か\u3099", "enclosing marks": "1\u20e3", "variation selectors": "\ufe0f",
    "tone marks": "\u0e48", "viramas": "\u094d", "vowel signs": "\u0947\u0902",
    # scripts
    "Arabic": "أعلنت سلطة الميناء يوم الثلاثاء ", "Arabic without spaces": "الميناء",
    "Arabic presentation forms": "ﻻﺍﷲ", "tatweel": "ـ", "Persian": "می\u200cبندد ", "Hebrew": "הגשר נפתח ",
    "Hindi": "समाचार आज ", "Hindi conjuncts": "क्ष", "nuktas": "ड\u093c", "Bengali": "সংবাদ ", "Tamil": "செய்தி ",
    "Thai": "ข่าววันนี้", "Thai vowels": "\u0e33", "Khmer": "ព័ត៌មាន", "Burmese": "သတင်း", "Tibetan": "གསར་འགྱུར་",
    "Tibetan vowels": "\u0f73\u0f75", "Georgian": "ახალი ამბები ", "Greek": "Η γέφυρα άνοιξε ", "final sigmas": "ς ",
    "Cyrillic": "мост открыт ", "jamo": "\u1112\u1161\u11ab", "vowels of jamo": "\u1161", "finals of jamo": "\u11ab",
    "Hangul": "뉴스", "Hangul with finals": "가\u11ab", "half-width jamo": "\uffa1\uffc2", "one Han": "漢",
    "traditional": "臺灣新聞報導", "Chinese sentences": "大桥今天开通了。", "kana": "ニュース",
    "half-width kana": "ﾆｭｰｽ",
    "Han and kana": "新しい橋が開通", "full width": "ＡＢＣ１２３　", "mathematical letters": "𝐚𝟏", "enclosed": "①㊀㍿",
    "compatibility Han": "豈", "two scripts": "aж", "letter and Han": "a漢", "right and left": "אa",
    # emoji
    "emoji": "😀", "skin tones": "👍\U0001f3ff", "families": "👩\u200d👩\u200d👧\u200d👦", "flags": "🇩🇪",
    "half flags": "🇩",
    "tag flags": "🏴\U000e0067\U000e0062\U000e007f", "keycaps": "1\ufe0f\u20e3",
    # figures, dates, addresses
    "digits": "9", "zeros": "0", "Arabic digits": "٣", "Devanagari digits": "१", "Thai digits": "๑",
    "numbers": "1,000.5 ", "groups": "1,000,", "scores": "3:1 ", "points and digits": "1.", "percent": "4.75 % ",
    "fractions": "½ ", "signs": "+-", "exponents": "1e9", "dates": "2024-01-01 ", "dates without spaces": "2024-01-01",
    "times": "12:00:", "dates in words": "Mon, 1 Jan 2024 ", "parts of dates": "Mon, of ",
    "dotted dates": "31.12.2024 ", "zones": "2024-01-01T00:00:00+", "addresses": "http://a.example/b?c=d#e ",
    "one address": "http://a.example/", "hosts": "a.", "percent signs": "%20", "mails": "a@b.example ",
    # punctuation
    "full stops": ".", "ellipses": "...", "commas": ",", "quotes": '"', "typographic quotes": "“”", "open quotes": "“",
    "apostrophes": "'", "letters and apostrophes": "a'", "hyphens": "-", "dashes": "—", "dashes between spaces": " - ",
    "letters and dashes": "a - ", "pipes": "|", "letters and pipes": "x | y - ", "colons": "x: ", "underscores": "_",
    "exclamation marks": "!", "ideographic full stops": "。", "dandas": "।", "brackets": "[", "closing brackets": "]",
    "nested brackets": "[(", "braces": "{}", "parentheses": "(", "backslashes": "\\", "slashes": "/", "hash signs": "#",
    "stars": "*", "backticks": "`", "arrows": "<>",
    # Markdown
    "links": "](", "whole links": "[a](http://a.example/) ", "open targets": "[x](http://a.example/",
    "targets with a title": '[x](/a "', "nested targets": "](/a(b", "images": "![", "images of links": "[![",
    "bold": "**a",
    # markup
    "less than": "<", "greater than": ">", "ampersands": "&", "references": "&#", "long references": "&#0000000",
    "entities": "&amp;", "escaped entities": "&amp;amp;", "unknown entities": "&zzzz;", "escaped tags": "&lt;p&gt;",
    "tags": "<p>", "tags alone": "<p></p>", "inline tags": "<b>", "words in tags": "<b>a</b> ",
    "letters in tags": "<i>a</i>", "nested elements": "<div><b>", "closing tags": "</p>",
    "wrong closing tags": "<b></i>", "misnested": "<b><i></b></i>", "line breaks in tags": "<br>", "open tags": "<p ",
    "open closing tags": "</p ", "unknown elements": "<zz>", "custom elements": "<a-b>",
    "prose in angle brackets": "a <b and c> d ", "tickers": "<BA> ", "attributes": "<p a=1 b='2' c=\"3\" ",
    "names of attributes": "<p ab cd ef gh ij kl ", "values": "<p a=b=c ", "quotes in tags": '<p a="',
    "quotes in tags, crossed": "<p a='\"", "flags in tags": "<p hidden ", "comments": "<!-- ",
    "whole comments": "<!-- a -->", "comments in comments": "<!--<!--", "ends of comments": "-->",
    "declarations": "<!doctype html>", "open declarations": "<!doctype ", "instructions": "<?xml ",
    "cdata": "<![CDATA[", "whole cdata": "<![CDATA[a]]>", "ends of cdata": "]]>", "scripts": "<script>x</script",
    "open scripts": "<script>", "styles": "<style>a{}</style>", "titles": "<title>",
    "hidden": "<p hidden>display: none", "styled": "<p style='display:none'>a", "displays": "display   ",
    "tables": "<table><tr><td>a", "cells": "<td>", "forms": "<form><select><option>", "lists in markup": "<ul><li>",
    "headings": "<h1>", "anchors": "<a href=#>", "frames": "<iframe>", "templates": "<template>", "vectors": "<svg><g>",
    "formulas": "<math><mi>", "plain text": "<plaintext>", "text areas": "<textarea>", "framesets": "<frameset>",
    "bodies": "<body>", "pages": "<html><body><article><p>", "metas": "<meta charset=", "bases": "<base href=a>",
    "images in markup": "<img src=a>", "captions": "<figure><figcaption>", "rubies": "<ruby>漢<rt>",
    "namespaces": "<a:b xmlns:a='c'>",
    # what decoders and layouts know
    "cut": "[+9 chars] ", "corrections": "CORRECTED-", "corrections in brackets": "(Corrected) ", "objects": '{"a":',
    "arrays": "[1,", "escapes of JSON": "\\u0041", "semicolons": "a;b;", "updates": "UPDATE 2-",
}  # fmt: skip


def _random(alphabet: str) -> Callable[[int], str]:
    return lambda size: "".join(Random(15).choices(alphabet, k=size))


def _between(before: str, after: str) -> Callable[[int], str]:
    return lambda size: before * (size // len(before + after)) + _WORDS + after * (size // len(before + after))


MADE: dict[str, Callable[[int], str]] = {
    "different words": lambda size: " ".join(islice(map("word{}".format, count(10**6)), size // 11)),
    "different sentences": lambda size: "".join(
        islice(map("Word{0} ran to word{0}. ".format, count(10**6)), size // 30)
    ),
    "different words without spaces": lambda size: "".join(islice(map("Word{}".format, count(10**6)), size // 11)),
    "different numbers": lambda size: " ".join(islice(map(str, count(10**6)), size // 8)),
    "different tags": lambda size: "".join(islice(map("<a{}>".format, count(10**6)), size // 10)),
    "different attributes": lambda size: "<p " + " ".join(islice(map("a{}=b".format, count(10**6)), size // 11)),
    "different entities": lambda size: "".join(islice(map("&#{};".format, count(10**4)), size // 8)),
    "different Han": _random("".join(map(chr, range(0x4E00, 0x9FA5)))),
    "different Hangul": _random("".join(map(chr, range(0xAC00, 0xD7A4)))),
    "different marks": _random("".join(c for c in map(chr, range(0x300, 0x1E000)) if unicodedata.combining(c))),
    "random letters": _random("abcdefghijklmnopqrstuvwxyz "),
    "random punctuation": _random("<>&;\"'()[]{}|-–—.,:!?/#*_ a1\n"),
    "random markup": _random("<>/pbi =\"'&;!-a"),
    "random characters": _random("".join(map(chr, [*range(0x20, 0x3000), *range(0x1F300, 0x1F700)]))),
    "elements in elements": _between("<div>", "</div>"),
    "inline in inline": _between("<b>", "</b>"),
    "quotes in quotes": _between("<blockquote>", "</blockquote>"),
    "lists in lists": _between("<ul><li>", "</li></ul>"),
    "tables in tables": _between("<table><tr><td>", "</td></tr></table>"),
    "markup in escaped markup": _between("&lt;div&gt;", "&lt;/div&gt;"),
    "brackets in brackets": _between("[", "](http://a.example/)"),
    "parentheses in parentheses": _between("(", ")"),
    "long attribute": lambda size: f'<p title="{"a" * size}">x</p>',
    "long tag": lambda size: f"<{'a' * size}>x",
    "long comment": lambda size: f"<!--{'-' * size}-->x",
    "spaces in a tag": lambda size: f"<p{' ' * size}=x",
    "spaces after a word": lambda size: f"word{' ' * size}word",
    "spaces after a date": lambda size: f"2024-01-01{' ' * size}Z",
    "digits after a date": lambda size: f"2024-01-01T00:00:00.{'9' * size}Z",
    "a word behind digits": lambda size: "9" * size + "a",
    "marks behind a letter": lambda size: "a" + "\u064c" * (size // 2) + "\u064b" * (size // 2),
    "a headline of dashes": lambda size: f"Mayor opens the bridge{' -' * (size // 2)} Site",
}


@cache
def _classes() -> dict[str, str]:
    """The first characters of each class of Unicode."""
    found: dict[str, str] = {}
    for character in map(chr, range(0x110000)):
        name = f"class {unicodedata.category(character)}"
        if len(found.get(name, "")) < 64:
            found[name] = found.get(name, "") + character
    return found


NAMES = (*PIECES, *MADE, *_classes())


def text_of(name: str, size: int) -> str:
    """Some `size` characters of a pattern."""
    if name in MADE:
        return MADE[name](size)
    piece = PIECES.get(name) or _classes()[name]
    return (piece * (size // len(piece) + 1))[:size]
