"""Turn news in XML into JSON objects: RSS 0.9x, 1.0 and 2.0, Atom, NITF, NewsML 1 and NewsML-G2.

In: the bytes of a document, as its publisher sent them. Out: one dict an entry, with the names that the presets of
fields.py know: an entry of a feed keeps the names of its elements (`rss`, `atom`), a document of the IPTC's formats
gets those of ninjs. Texts are HTML or plain, as in the JSON that publishers make of the same articles.

What publishers break is repaired first, because libxml2 would drop it without a word: a bare `&` or `<`, HTML's
entities, control characters, bytes of another encoding than the one declared. Then lxml repairs unclosed tags. What
would lose an entry is refused: a document that is cut short, an entry within another, libxml2's limits of depth (256)
and size (a text of 10 MB). A document cannot harm: entities that it declares are refused, and no DTD is loaded.
"""

import codecs
import re
from html import escape, unescape
from html.entities import html5
from typing import Any

from lxml import etree

from stream_dedup.errors import BadItem

Entry = dict[str, Any]

# The prefixes that feeds use by custom, whatever a document calls them; presets know these.
_PREFIXES = {
    "http://www.w3.org/2005/Atom": "atom:",
    "http://purl.org/rss/1.0/modules/content/": "content:",
    "http://purl.org/dc/elements/1.1/": "dc:",
    "http://purl.org/dc/terms/": "dcterms:",
    "http://search.yahoo.com/mrss/": "media:",
    "http://rssnamespace.org/feedburner/ext/1.0": "feedburner:",
    "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes:",
}
# Elements of an entry that hold a text, in which tags are markup and no structure. Of several the longest counts.
_TEXTS = frozenset(("title", "description", "summary", "content", "content:encoded"))
_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
# Elements of NITF that stand by themselves, and no element of HTML does: as div, words before and after do not join.
_BLOCK = re.compile("hl2|byline|dateline|abstract|tagline|bq|credit|note|media|media-caption|media-producer")
# By root or item element of the IPTC's formats: where the fields of ninjs stand, as paths of local names. The first
# path that finds something counts; `@name` is an attribute.
_IPTC = {
    "nitf": {
        "uri": "head/docdata/doc-id/@id-string", "headline": "body/body.head/hedline/hl1|head/title",
        "body_html": "body/body.content",
        "source": "head/docdata/doc.copyright/@holder|head/pubdata/@name|body/body.head/distributor",
        "versioncreated": "head/docdata/date.issue/@norm|head/pubdata/@date.publication",
    },
    "newsItem": {
        "uri": "@guid", "headline": "contentMeta/headline|itemMeta/title",
        "body_html": "contentSet/inlineXML//body.content|contentSet/inlineXML//body|contentSet/inlineXML"
        "|contentSet/inlineData|contentMeta/description",
        "source": "contentMeta/infoSource/name|contentMeta/infoSource/@literal|contentMeta/infoSource/@uri"
        "|itemMeta/provider/name|itemMeta/provider/@literal|itemMeta/provider/@uri|itemMeta/provider/@qcode",
        "versioncreated": "itemMeta/versionCreated|contentMeta/contentCreated",
    },
    "NewsItem": {
        "uri": "Identification/NewsIdentifier/PublicIdentifier", "headline": ".//NewsLines/HeadLine",
        "body_html": ".//DataContent//body.content|.//DataContent//body|.//DataContent",
        "source": ".//AdministrativeMetadata/Source/Party/@FormalName"
        "|.//AdministrativeMetadata/Provider/Party/@FormalName",
        "versioncreated": "NewsManagement/ThisRevisionCreated|NewsManagement/FirstCreated",
    },
}  # fmt: skip
_ROOTS = frozenset(("rss", "RDF", "feed"))
_OUTERMOST = ("{*}item", "{*}entry", *(f"{{*}}{name}" for name in _IPTC))
_ENTITY = "<!ENTITY"
_ELEMENT = re.compile(r"<!--.*?(?:-->|\Z)|<(?=[A-Za-z_])", re.DOTALL)
_DECLARED = re.compile(rb"<\?xml[^>]{0,200}?\sencoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})[\"']")
# Encodings of news that Python can decode; what declares another one is read as UTF-8. A document that was declared by
# its bytes (UTF-16) comes decoded.
_ENCODINGS = re.compile(r"(?i)iso[-_]?8859[-_]|latin-?1|us-ascii|(windows|cp)-?125|koi8|gb|big5|shift|euc|mac")
# Windows' encoding is a superset of these, and what those who declare them mean; gb18030 is it of older Chinese ones.
_WINDOWS = re.compile(r"(?i)iso[-_]?8859[-_]?1$|latin-?1$|us-ascii$")
_CHINESE = re.compile(r"(?i)gb(2312|k)$")
_CONTROL = bytes.maketrans(bytes([*range(9), 11, 12, *range(14, 32)]), b" " * 29)
# What libxml2 would drop: an "&" that begins no reference, a "<" that begins no tag, and HTML's entities. Sections
# whose content means itself are passed over, to the end if they are not closed, so the search stays linear.
_DOUBTFUL = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|<(?![A-Za-z_/!])"
    r"|&(?:#\d{1,7};|#x[0-9a-fA-F]{1,6};|([A-Za-z][A-Za-z0-9]{1,31});)?",
    re.DOTALL,
)
_XML_NAMES = frozenset(("amp", "lt", "gt", "quot", "apos"))
# Errors after which libxml2 leaves out the rest of a document, or of a text.
_LOSSES = frozenset(("ERR_RESOURCE_LIMIT", "ERR_NAME_TOO_LONG", "ERR_CDATA_NOT_FINISHED", "ERR_COMMENT_NOT_FINISHED"))
OPML = "it is OPML, a list of feeds and no news; to read those: stream-dedup feeds FILE"
# The namespaces of the document, which lxml writes into each tag that it takes out.
_DECLARATIONS = re.compile(r'(<[\w.-]+)(?: xmlns(?::[\w.-]+)?="[^"<>]*")+')
_BARE = "stream-dedup-windows"


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    """Decode the bytes that do not fit by Windows' encoding, which is what most broken feeds have."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error(_BARE, _as_windows)


def entries(value: bytes, charset: str = "") -> list[Entry]:
    """Return the entries of a document in their order. O(bytes). `charset`: see `text_of`.

    >>> entries(b"<rss><channel><item><title>A &amp; B & C</title><guid>7</guid></item></channel></rss>")
    [{'title': 'A & B & C', 'guid': '7'}]

    Raises BadItem (reason `xml`) for what is neither a feed nor a document of a known format, for declared entities,
    and for what would lose an entry.
    """
    text = text_of(value, charset)
    root, loss = root_of(text)
    _check(root, text, loss)
    links = (each.text for each in root.iterfind("{*}channel/{*}link"))
    link = next((each.strip() for each in links if each and each.strip()), None)
    found = list(root.iter(*_OUTERMOST))
    inner = set[Any]()
    for one in found:
        for each in one.iterdescendants(*_OUTERMOST):
            if each.tag == one.tag and _local(one) not in _IPTC:
                raise BadItem("xml", f"a <{_local(one)}> stands within another: one of its tags is not closed")
            inner.add(each)
    return [_entry(each, link) for each in found if each not in inner]


def root_of(text: str) -> tuple[Any, str]:
    """The root of a document whose text was repaired, and what libxml2 has left out of it, if it says so.

    Lines of elements are those of the text. Raises BadItem (reason `xml`).
    """
    first = next((found for found in _ELEMENT.finditer(text) if found[0] == "<"), None)
    if first is None:
        raise BadItem("xml", "not XML: it has no element")
    if _ENTITY in text[: first.start()]:
        raise BadItem("xml", "it declares entities, which could unpack to anything; write the characters themselves")
    parser = etree.XMLParser(
        encoding="utf-8", recover=True, resolve_entities=False, remove_comments=True, remove_pis=True
    )
    # With `recover` a document that cannot be repaired has no root. What precedes the root is of no use: a declaration
    # of another encoding, a DOCTYPE, what a web server printed.
    above = "\n" * text.count("\n", 0, first.start())
    repaired = (above + _DOUBTFUL.sub(_repaired, text[first.start() :])).encode("utf-8", "replace")
    root = etree.fromstring(repaired.translate(_CONTROL), parser)
    if root is None:
        raise BadItem("xml", "not XML: it cannot be repaired")
    return root, next((error.message for error in parser.error_log if error.type_name in _LOSSES), "")


def text_of(value: bytes, charset: str = "") -> str:
    r"""Decode a document as it declares, else as `charset`, which its server named; what does not fit as Windows-1252.

    >>> text_of("Паром".encode("cp1251"), "windows-1251"), text_of(b"caf\xe9"), text_of(b"x", "no-such-charset")
    ('Паром', 'café', 'x')
    """
    if value[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return value.decode("utf-16", "replace")
    declared = _DECLARED.match(value.lstrip())
    name = "" if value.startswith(codecs.BOM_UTF8) else declared[1].decode() if declared else charset
    name = "gb18030" if _CHINESE.match(name) else name
    name = "cp1252" if _WINDOWS.match(name) else name if _ENCODINGS.match(name) else "utf-8-sig"
    try:
        return value.decode(name, "replace" if name == "cp1252" else _BARE)
    except (LookupError, ValueError):  # a name that is none
        return value.decode("utf-8", _BARE)


def _repaired(doubtful: re.Match[str]) -> str:
    text, name = doubtful[0], doubtful[1]
    if name is None:
        if text.startswith("&#") and unescape(text) == "\ufffd":
            return "\ufffd"  # the number of no character: lxml cannot decode a namespace that has it
        return {"&": "&amp;", "<": "&lt;"}.get(text, text)
    if name in _XML_NAMES:
        return text
    known = html5.get(f"{name};")
    return f"&amp;{name};" if known is None else "".join(f"&#{ord(character)};" for character in known)


def _check(root: Any, text: str, loss: str) -> None:
    """Raise BadItem for a document of another kind, and for one of which libxml2 has left something out."""
    kind = _local(root)
    if loss:
        raise BadItem("xml", f"it cannot be read to its end: {loss}")
    if kind.lower() == "opml":
        raise BadItem("xml", OPML)
    if kind not in _ROOTS and next(root.iter(*_OUTERMOST), None) is None:
        raise BadItem("xml", f"<{kind}> is neither a feed (RSS, Atom) nor NITF or NewsML")
    if len(root) and re.search(rf"</(?:[\w.-]+:)?{re.escape(kind)}\s*>", text) is None:
        raise BadItem("xml", f"it is cut short: </{kind}> is missing")


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2].rpartition(":")[2]


def _name(element: Any, own: str) -> str:
    """The name as feeds use it; `own`: the namespace of the entry, whose elements have no prefix.

    An element of a foreign namespace keeps its prefix, so that it is not taken for a title or a text.
    """
    namespace, _, local = element.tag.rpartition("}")
    if namespace in ("", own):
        return str(local)
    prefix = _PREFIXES.get(namespace[1:])
    return str(local) if prefix is None and not element.prefix else f"{prefix or element.prefix + ':'}{local}"


def _entry(element: Any, channel: str | None) -> Entry:
    paths = _IPTC.get(_local(element))
    if paths is not None:
        found = (
            (field, filter(None, (_at(element, path) for path in each.split("|")))) for field, each in paths.items()
        )
        return {field: text for field, texts in found if (text := next(texts, ""))}
    own = element.tag.rpartition("}")[0]
    entry: Entry = {"id": element.get(_ABOUT)} if element.get(_ABOUT) else {}
    for child in element.iterchildren(etree.Element):
        name = _name(child, own)
        if name in _TEXTS:
            entry[name] = max(entry.get(name, ""), _markup(child), key=len)
        else:
            _add(entry, name, _value(child, own))
    if not any(entry.get(name) for name in _TEXTS - {"title"}):
        described = next(element.iter("{http://search.yahoo.com/mrss/}description"), None)
        if described is not None:
            entry["summary"] = _markup(described)
    if channel and not {"link", "source"} & entry.keys():
        entry["source"] = channel
    return entry


def _value(element: Any, own: str) -> Any:
    """An element as JSON: a text, or an object of its attributes (`@name`), children and text (`#text`)."""
    text = (element.text or "").strip()
    value: Entry = {f"@{name.rpartition('}')[2]}": one for name, one in element.attrib.items()}
    for child in element.iterchildren(etree.Element):
        _add(value, _name(child, own), _value(child, own))
    if not value:
        return text
    return value | {"#text": text} if text else value


def _add(parent: Entry, name: str, value: Any) -> None:
    """Give the parent a member; a name that recurs becomes a list."""
    if name not in parent:
        parent[name] = value
    elif isinstance(parent[name], list):
        parent[name].append(value)
    else:
        parent[name] = [parent[name], value]


def _markup(element: Any) -> str:
    """The content of an element: its text as it is, or, if it has tags, HTML."""
    if not len(element):
        return (element.text or "").strip()
    for child in element.iterdescendants(etree.Element):
        local = _local(child)
        child.tag = "div" if _BLOCK.fullmatch(local) else local or "span"  # of `<a:>` nothing is left
    # As HTML, not as XML: a browser reads `<script/>` as a script without an end.
    inner = "".join(etree.tostring(child, encoding="unicode", method="html") for child in element)
    return (escape(element.text or "", quote=False) + _DECLARATIONS.sub(r"\1", inner)).strip()


def _at(element: Any, path: str) -> str:
    """What stands at a path of local names: a text, an attribute, or markup."""
    steps, _, attribute = path.partition("@")
    steps = "/".join(step if step == "." or not step else "{*}" + step for step in steps.rstrip("/").split("/"))
    target = element.find(steps) if steps else element
    if target is None:
        return ""
    return target.get(attribute, "").strip() if attribute else _markup(target)
