"""Turn news in XML into JSON objects: RSS 0.9x, 1.0 and 2.0, Atom, NITF, NewsML 1 and NewsML-G2.

In: the bytes of one document or several, which repair.py parses. Out: one dict an entry, with the names that the
presets of fields.py know: an entry of a feed keeps the names of its elements (`rss`, `atom`), a document of the IPTC's
formats gets those of ninjs. Texts are HTML or plain, as in the JSON that publishers make of the same articles.
"""

import re
from html import escape
from typing import Any

from lxml import etree

from stream_dedup.errors import BadItem
from stream_dedup.news.repair import documents_of, local_name

Entry = dict[str, Any]

# The prefixes by which presets know elements of other namespaces, whatever a document calls them.
_PREFIXES = {
    "http://www.w3.org/2005/Atom": "atom:",
    "http://purl.org/rss/1.0/modules/content/": "content:",
    "http://purl.org/dc/elements/1.1/": "dc:",
    "http://rssnamespace.org/feedburner/ext/1.0": "feedburner:",
}
# Elements that hold a text, in which tags are markup and no structure. Of several the longest counts.
_TEXTS = frozenset(("title", "description", "summary", "content", "content:encoded"))
_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_MEDIA = ".//{http://search.yahoo.com/mrss/}description"
# Elements of NITF that stand by themselves, and no element of HTML does: as div, words before and after do not join,
# and an empty one is no text. The same for those of no name, such as <media:>.
_BLOCK = re.compile(
    "block|hl2|byline|dateline|abstract|tagline|bq|credit|note|media|media-caption|media-producer|(?![A-Za-z_]).*"
)
# By root or item element of the IPTC's formats: where the fields of ninjs stand, as paths of local names. The first
# path that finds something counts; `@name` is an attribute.
_IPTC = {
    "nitf": {
        "uri": "head/docdata/doc-id/@id-string", "headline": "body/body.head/hedline/hl1|head/title",
        "body_html": "body/body.content",
        "source": "head/docdata/doc.copyright/@holder|head/pubdata/@name|body/body.head/distributor"
        "|head/docdata/doc-id/@regsrc",
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
_FEEDS = frozenset(("rss", "RDF", "feed"))
_OUTERMOST = ("{*}item", "{*}entry", *(f"{{*}}{name}" for name in _IPTC))
# The namespaces of the document, which lxml writes into each tag that it takes out.
_DECLARATIONS = re.compile(r'(<[\w.-]+)(?: xmlns(?::[\w.-]+)?="[^"<>]*")+')
OPML = "it is OPML, a list of feeds and no news; to read those: stream-dedup feeds FILE"


def entries(value: bytes, charset: str = "") -> list[Entry]:
    """Return the entries of the documents in their order. O(bytes). `charset`: see `text_of`.

    >>> entries(b"<rss><channel><item><title>A &amp; B & C</title><guid>7</guid></item></channel></rss>")
    [{'title': 'A & B & C', 'guid': '7'}]

    Raises BadItem (reason `xml`) for what is neither a feed nor a document of a known format, for declared entities,
    and for what would lose an entry.
    """
    tree, documents = documents_of(value, charset)
    kinds = [local_name(each) for each in documents]
    if kinds and kinds[0].lower() == "opml":
        raise BadItem("xml", OPML)
    found = []
    for each in tree.iter(*_OUTERMOST):
        if next(each.iterancestors(*_OUTERMOST), None) is None:
            found.append(each)
        elif next(each.iterancestors(each.tag), None) is not None and local_name(each) not in _IPTC:
            raise BadItem("xml", f"a <{local_name(each)}> stands within another: one of its tags is not closed")
    if kinds and not found and not _FEEDS & {*kinds}:
        raise BadItem("xml", f"<{kinds[0]}> is neither a feed (RSS, Atom) nor NITF or NewsML")
    links = (each.text for each in tree.iterfind(".//{*}channel/{*}link"))
    link = next((each.strip() for each in links if each and each.strip()), None)
    return [_entry(each, link) for each in found]


def _entry(element: Any, channel: str | None) -> Entry:
    paths = _IPTC.get(local_name(element))
    if paths is not None:
        return {field: _first(element, field, each.split("|")) for field, each in paths.items()}
    entry = _members(element, element.tag.rpartition("}")[0])
    if element.get(_ABOUT):
        entry["id"] = element.get(_ABOUT)
    if not any(entry.get(name) for name in _TEXTS - {"title"}) and (media := element.find(_MEDIA)) is not None:
        entry["summary"] = _markup(media)
    if channel and not {"link", "source"} & entry.keys():
        entry["source"] = channel
    return entry


def _members(element: Any, own: str) -> Entry:
    """The child elements by name: texts as markup, others as values; of several texts the longest, of values a list."""
    found: dict[str, list[Any]] = {}
    for child in element.iterchildren(etree.Element):
        name = _name(child, own)
        found.setdefault(name, []).append(_markup(child) if name in _TEXTS else _value(child, own))
    return {
        name: max(each, key=len) if name in _TEXTS else each if len(each) > 1 else each[0]
        for name, each in found.items()
    }


def _name(element: Any, own: str) -> str:
    """The name as feeds use it; `own`: the namespace of the entry, whose elements have no prefix.

    An element of a foreign namespace keeps its prefix, so that it is not taken for a title or a text.
    """
    namespace, _, local = element.tag.rpartition("}")
    if namespace in ("", own):
        return str(local)
    prefix = _PREFIXES.get(namespace[1:])
    return str(local) if prefix is None and not element.prefix else f"{prefix or element.prefix + ':'}{local}"


def _value(element: Any, own: str) -> Any:
    """An element as JSON: a text, or an object of its attributes (`@name`), children and text (`#text`)."""
    text = (element.text or "").strip()
    value = {f"@{name.rpartition('}')[2]}": one for name, one in element.attrib.items()} | _members(element, own)
    return value | {"#text": text} if value and text else value or text


def _markup(element: Any) -> str:
    """The content of an element: its text as it is, or, if it has tags, HTML."""
    if not len(element):
        return (element.text or "").strip()
    for child in element.iterdescendants(etree.Element):
        local = local_name(child)
        child.tag = "div" if _BLOCK.fullmatch(local) else local
    # As HTML, not as XML: a browser reads `<script/>` as a script without an end.
    inner = "".join(etree.tostring(child, encoding="unicode", method="html") for child in element)
    return (escape(element.text or "", quote=False) + _DECLARATIONS.sub(r"\1", inner)).strip()


def _first(element: Any, field: str, paths: list[str]) -> str:
    """The first text at these paths. An empty body counts, too: what is around it has headlines and slugs."""
    for path in paths:
        text = _at(element, path)
        if text or (text is not None and field == "body_html"):
            return text
    return ""


def _at(element: Any, path: str) -> str | None:
    """What stands at a path of local names: a text, an attribute, or markup; None: it has no such element."""
    steps, _, attribute = path.partition("@")
    steps = "/".join(step if step == "." or not step else "{*}" + step for step in steps.rstrip("/").split("/"))
    target = element.find(steps) if steps else element
    if target is None:
        return None
    return target.get(attribute, "").strip() if attribute else _markup(target)
