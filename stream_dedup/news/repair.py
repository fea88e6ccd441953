"""Parse XML as publishers send it: in any encoding, and broken. The bytes may hold several documents.

UTF-16 and UTF-32 show by their first bytes; bytes that say no encoding get a guess. Files that are no XML have their
encoding from here, too, and lxml comes with an extra, so it is imported only where XML is parsed.

Some mistakes are repaired first, because libxml2 would drop the text around them silently: a bare `&` or `<`, HTML's
entities, control characters, bytes that do not fit the declared encoding. Then lxml repairs unclosed tags. A document
is refused if a part of it would be lost: it is cut short, has more end tags than start tags, or exceeds libxml2's
limits of depth (256) and size (a text of 10 MB). No document does harm: declared entities are refused unless they are
HTML's, no DTD is loaded, and repairs and tags are bounded.
"""

import codecs
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from html import escape, unescape
from html.entities import html5
from typing import Any

from stream_dedup.errors import BadItem
from stream_dedup.extras import require

_WIDE = {
    "utf-32": rb"\xff\xfe\0\0|\0\0\xfe\xff", "utf-16": rb"\xff\xfe|\xfe\xff", "utf-32-le": rb"[^\0]\0\0\0",
    "utf-32-be": rb"\0\0\0[^\0]", "utf-16-le": rb"(?:[^\0]\0){2}", "utf-16-be": rb"(?:\0[^\0]){2}",
}  # fmt: skip
# A publisher that declares one of these means Windows-1252, a superset.
_WINDOWS = re.compile(r"(?i)iso[-_]?8859[-_]?1$|latin-?1$|us-ascii$")
# A guess uses the words between tags that are not ASCII.
_IN_WORD = re.compile(rb"[A-Za-z][\x80-\xff]|(?<![\x80-\xff])[\x80-\xff]+[A-Za-z]")
_LATIN, _CJK = "\u036f", "\u2e80"  # the last character of the Latin script and its marks; the first of East Asian ones
_SURE = 0.15  # chardet was wrong about four of nine phrases in Latin script, with .03 to .12
# Bytes of the six letters that Turkish has where Icelandic and Faroese have others; and of letters of only the latter.
_TURKISH, _ICELANDIC = frozenset(b"\xd0\xdd\xde\xf0\xfd\xfe"), frozenset("ÁÉÍÓÚÆáéíóúæ".encode("latin-1"))
_TAG, _NOT_ASCII, _SAMPLE = re.compile(rb"<[^<>]*>"), re.compile(rb"[^\x00-\x7f]+"), 2**16
_DECLARED = re.compile(rb"<\?xml[^>]{0,200}?\sencoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})[\"']")
# Encodings of news that Python can decode. A document that declares another one is read as UTF-8. UTF-16 and UTF-32 are
# recognised by their bytes.
_ENCODINGS = re.compile(r"(?i)iso[-_]?8859[-_]|latin-?1|us-ascii|(windows|cp)-?125|koi8|gb|big5|shift|euc|mac")
# gb18030 is that of older Chinese encodings.
_CHINESE = re.compile(r"(?i)gb(2312|k)$")
_LEAD = codecs.BOM_UTF8 + b" \t\r\n"
_CONTROL = bytes.maketrans(bytes([*range(9), 11, 12, *range(14, 32)]), b" " * 29)
# What libxml2 would drop: an "&" that begins no reference, a "<" that begins no tag, and HTML's entities. Comments,
# declarations and CDATA match as a whole. An unclosed one goes to the end, so the search stays linear.
_DOUBTFUL = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<![A-Za-z][^<>]*>?|<(?![A-Za-z_/])"
    r"|&(?!(?:amp|lt|gt|quot|apos);)(?:#?\w{1,32};)?",
    re.DOTALL,
)
_ENTITY = re.compile(r"<!ENTITY\s+(\w{1,32})\s")
# In a document; they take some two seconds. A large feed has some thousand.
_MOST_REPAIRS = 1_000_000
# In an entry, start and end tags together; they take some 20 MB. The longest articles have some thousand.
_MOST_TAGS = 200_000
_PIECE = 2**16  # bytes that are parsed at a time
# Elements around the documents. `_END` is missing if libxml2 stopped before it. Each end tag without a start closes one
# `_AROUND`, and behind the last one libxml2 reads nothing. Web servers append up to two (`</body></html>`).
_AROUND, _END = "stream-dedup-around", "stream-dedup-end"
_BEFORE, _AFTER = 3 * f"<{_AROUND}>".encode(), f"<{_END}/>".encode()
# Errors after which libxml2 leaves out a part and goes on. Its own messages are not shown: they may quote the document.
_LOSSES = {
    "ERR_RESOURCE_LIMIT": "it is nested more than 256 deep, or has a text of more than 10 MB",
    "ERR_NAME_TOO_LONG": "a name is too long",
    "ERR_CDATA_NOT_FINISHED": "a CDATA section is not closed",
}
_AS_WINDOWS = "stream-dedup-windows"


def _as_windows(error: Any) -> tuple[str, int]:
    """Decode bytes that do not fit as Windows-1252, which they are in most broken feeds."""
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error(_AS_WINDOWS, _as_windows)


def documents_of(
    value: bytes,
    charset: str = "",
    tags: Sequence[str] = (),
    take: Callable[[Any], bool] = bool,
    note: Callable[[str], None] = lambda _: None,
) -> tuple[set[str], list[Any]]:
    """Return libxml2's names of the errors, and the root of each document. O(bytes).

    `take` gets each element with one of these `tags` at its end, and returns whether it is an entry. It may clear the
    element, so that memory holds one entry at a time. Line numbers of elements are those of the value. For `charset`
    and `note` see `text_of`.

    >>> _, [document] = documents_of(b"<rss><title>A &amp; B & C</rss>")
    >>> document.tag, document[0].text
    ('rss', 'A & B & C')

    Raises BadItem (reason `xml`) for bytes that are no XML, for declared entities, and where libxml2 would leave out a
    part.
    """
    from lxml import etree

    repaired = _repaired(text_of(value, charset, note))
    parser = etree.XMLPullParser(
        ("end",) if tags else (), tag=tags, encoding="utf-8", recover=True, resolve_entities=False
    )
    parser.feed(_BEFORE)
    count = 0
    for start in range(0, len(repaired), _PIECE):
        piece = repaired[start : start + _PIECE]
        parser.feed(piece)
        count += piece.count(b"<")
        for _, element in parser.read_events():
            count = 0 if take(element) else count
        if count > _MOST_TAGS:
            raise BadItem("xml", f"an entry has more than {_MOST_TAGS:,} tags")
    parser.feed(_AFTER)
    tree = parser.close()
    errors = {error.type_name for error in parser.feed_error_log}
    loss = next((text for name, text in _LOSSES.items() if name in errors), "")
    end = next(tree.iter(_END), None)
    if loss or end is None:
        cause = loss or "it ends within a tag, or has too many end tags"
        raise BadItem("xml", f"it cannot be read to its end: {cause}")
    roots = [root for root in tree.iterfind(f".//{_AROUND}/*") if root.tag not in (_AROUND, _END)]
    if not roots and repaired.strip():
        raise BadItem("xml", "it has no element of XML, and JSON must be in UTF-8")
    if end.getparent().tag != _AROUND:  # within the last document
        kinds = [local_name(root) for root in roots]
        ends = re.findall(rb"</(?:[\w.-]+:)?%s\s*>" % re.escape(kinds[-1].encode()), repaired)
        if len(ends) < kinds.count(kinds[-1]):
            raise BadItem("xml", f"it is cut short: </{kinds[-1]}> is missing")
    return errors, roots


def local_name(element: Any) -> str:
    """Return the name of an element without its prefix, declared or not."""
    return str(element.tag).rpartition("}")[2].rpartition(":")[2]


def text_of(value: bytes, charset: str = "", note: Callable[[str], None] = lambda _: None) -> str:
    r"""Decode a document as UTF-8 if it can be UTF-8, else by the server's `charset`, else as it declares.

    Without a usable charset chardet guesses (it knew 29 of 29 short feeds, charset-normalizer 20). Single bytes that do
    not fit are read as Windows-1252. `note` gets a sentence if a document is not what it declares.

    >>> text_of("Паром".encode("cp1251"), "windows-1251"), text_of(b"caf\xe9"), text_of(b"x", "no-such-charset")
    ('Паром', 'café', 'x')
    """
    if wide := wide_encoding(value):
        return value.decode(wide, "replace").lstrip("\ufeff")
    declaration = _DECLARED.match(value.lstrip(_LEAD))
    declared = declaration[1].decode() if declaration else ""
    # A server that was not configured says ISO 8859-1.
    names = [declared, charset] if _WINDOWS.match(charset) else [charset, declared]
    name = next((name for name in names if _ENCODINGS.match(name)), "")
    with suppress(UnicodeDecodeError):
        text = value.decode().lstrip("\ufeff")
        if name and not value.isascii():
            note(f"says that it is in {name}, and is in UTF-8: it is read as UTF-8")
        return text
    name = "gb18030" if _CHINESE.match(name) else "cp1252" if _WINDOWS.match(name) else name
    if not name:
        name = guessed_encoding(value)
        note(f"is not in UTF-8: what does not fit is read as {name or 'Windows-1252'}")
    with suppress(LookupError, ValueError):  # Python knows no such encoding
        return value.decode(name or "utf-8-sig", _AS_WINDOWS)
    return value.decode("utf-8", _AS_WINDOWS)


def wide_encoding(head: bytes) -> str:
    """Return UTF-16 or UTF-32 if the first bytes show one of them, with or without a byte order mark, else "".

    >>> [wide_encoding("id,x".encode(name)) for name in ("utf-16", "utf-16-le", "utf-32-be", "utf-8")]
    ['utf-16', 'utf-16-le', 'utf-32-be', '']
    """
    return next((name for name, start in _WIDE.items() if re.match(start, head)), "")


def guessed_encoding(value: bytes) -> str:
    """Guess the encoding of bytes that are not UTF-8; "" for UTF-8, even with a few broken bytes.

    >>> guessed_encoding("Brücke".encode()), guessed_encoding("1;Die Brücke über die Elm ist geöffnet".encode("cp1252"))
    ('', 'cp1252')
    >>> [guessed_encoding(text.encode(name)) for text, name in (("Köprü kapandı", "cp1254"), ("Brúin sagði", "cp1252"))]
    ['cp1254', 'cp1252']
    """
    words = _TAG.sub(b" ", value[: 16 * _SAMPLE])[:_SAMPLE]
    runs = _NOT_ASCII.findall(words)
    text = b" ".join(runs).decode("utf-8", "surrogateescape")
    if 2 * sum("\udc80" <= letter <= "\udcff" for letter in text) <= len(text.replace(" ", "")):
        return ""
    guess = require("chardet", "text that is not UTF-8", "write it in UTF-8").detect(words)
    name = guess["encoding"] or "cp1252"
    scripts = {
        letter > _LATIN for letter in b"".join(runs).decode(name, "replace") if letter.isalpha() and letter < _CJK
    }
    # Letters within ASCII words are Latin. chardet takes a few of them for Cyrillic.
    is_latin = 2 * len(_IN_WORD.findall(words)) >= len(runs)
    is_doubtful = is_latin and scripts and (True in scripts or guess["confidence"] < _SURE)
    if not is_doubtful and not _WINDOWS.match(name):
        return name
    return "cp1254" if _TURKISH & {*words} and not _ICELANDIC & {*words} else "cp1252"


def _repaired(text: str) -> bytes:
    """Return the text in UTF-8, without anything that libxml2 would drop."""
    count = 0

    def repair(doubtful: re.Match[str]) -> str:
        nonlocal count
        text = doubtful[0]
        if text.startswith("<!ENTITY"):
            name = _ENTITY.match(text)
            if name is None or f"{name[1]};" not in html5:
                raise BadItem(
                    "xml", "it declares entities, which could unpack to anything; write the characters themselves"
                )
        if text.startswith("<![CDATA["):
            return text
        if text.startswith(("<!", "<?")):
            return "\n" * text.count("\n")
        count += 1
        if count > _MOST_REPAIRS:
            raise BadItem("xml", f"it has more than {_MOST_REPAIRS:,} characters that must be written as entities")
        return escape(unescape(text))

    return _DOUBTFUL.sub(repair, text).encode("utf-8", "replace").translate(_CONTROL)
