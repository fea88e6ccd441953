"""Turn news in XML into JSON objects: RSS 0.9x, 1.0 and 2.0, Atom, NITF, NewsML 1 and NewsML-G2.

In: the bytes of a document, as its publisher sent them. Out: one dict an entry, with the names that the presets of
fields.py know: an entry of a feed keeps the names of its elements (`rss`, `atom`), a document of the IPTC's formats
gets those of ninjs. lxml repairs what publishers break: unclosed tags, HTML's entities, control characters.

A document cannot harm: entities that it declares are refused, external ones and DTDs are never loaded, and libxml2's
limits of depth and size stay in force.
"""

import re
from html.entities import html5
from typing import Any

from lxml import etree

from stream_dedup.errors import BadItem

Entry = dict[str, Any]

# The prefixes that feeds use by custom, whatever a document calls them; presets know these.
_PREFIXES = {
    "http://purl.org/rss/1.0/modules/content/": "content:",
    "http://purl.org/dc/elements/1.1/": "dc:",
    "http://purl.org/dc/terms/": "dcterms:",
    "http://search.yahoo.com/mrss/": "media:",
    "http://rssnamespace.org/feedburner/ext/1.0": "feedburner:",
    "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes:",
}
# Elements of an entry that hold a text, in which tags are markup and no structure.
_TEXTS = frozenset(("title", "description", "summary", "content", "content:encoded"))
# By root or item element of the IPTC's formats: where the fields of ninjs stand, as paths of local names. The first
# path that finds something counts; `@name` is an attribute.
_IPTC = {
    "nitf": {
        "uri": ("head/docdata/doc-id/@id-string",),
        "headline": ("body/body.head/hedline/hl1", "head/title"),
        "body_html": ("body/body.content",),
        "source": ("head/docdata/doc.copyright/@holder", "head/pubdata/@name", "body/body.head/distributor"),
        "versioncreated": ("head/docdata/date.issue/@norm", "head/pubdata/@date.publication"),
    },
    "newsItem": {
        "uri": ("@guid",),
        "headline": ("contentMeta/headline", "itemMeta/title"),
        "body_html": ("contentSet/inlineXML", "contentSet/inlineData", "contentMeta/description"),
        "source": (
            "contentMeta/infoSource/name", "contentMeta/infoSource/@literal", "contentMeta/infoSource/@uri",
            "itemMeta/provider/name", "itemMeta/provider/@literal", "itemMeta/provider/@uri", "itemMeta/provider/@qcode",
        ),
        "versioncreated": ("itemMeta/versionCreated", "contentMeta/contentCreated"),
    },
    "NewsItem": {
        "uri": ("Identification/NewsIdentifier/PublicIdentifier",),
        "headline": (".//NewsLines/HeadLine",),
        "body_html": (".//ContentItem/DataContent",),
        "source": (".//AdministrativeMetadata/Source/Party/@FormalName", ".//AdministrativeMetadata/Provider/Party/@FormalName"),
        "versioncreated": ("NewsManagement/ThisRevisionCreated", "NewsManagement/FirstCreated"),
    },
}  # fmt: skip
_OUTERMOST = ("{*}item", "{*}entry", *(f"{{*}}{name}" for name in _IPTC))
_NAMED = re.compile(rb"&([A-Za-z][A-Za-z0-9]{1,31});")
_XML_NAMES = frozenset((b"amp", b"lt", b"gt", b"quot", b"apos"))


def entries(value: bytes) -> list[Entry]:
    """Return the entries of a document in their order. O(bytes).

    >>> entries(b"<rss><channel><item><title>A &amp; B</title><guid>7</guid></item></channel></rss>")
    [{'title': 'A & B', 'guid': '7'}]

    Raises BadItem (reason `xml`) if it is no XML, or neither a feed nor a document of a known format, and for declared
    entities.
    """
    # With `recover` nothing is raised: a document that cannot be repaired at all has no root.
    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True, remove_pis=True
    )
    root = etree.fromstring(_NAMED.sub(_character, value.strip()), parser)
    if root is None:
        raise BadItem("xml", "not XML: it has no element")
    dtd = root.getroottree().docinfo.internalDTD
    if dtd is not None and any(True for _ in dtd.iterentities()):
        raise BadItem("xml", "it declares entities, which could unpack to anything; write the characters themselves")
    found = list(root.iter(*_OUTERMOST))
    inner = {each for one in found for each in one.iterdescendants(*_OUTERMOST)}
    if not found and _local(root) not in ("rss", "RDF", "feed"):
        raise BadItem("xml", f"<{_local(root)}> is neither a feed (RSS, Atom) nor NITF or NewsML")
    link = root.findtext("{*}channel/{*}link")
    return [_entry(each, link) for each in found if each not in inner]


def _character(match: re.Match[bytes]) -> bytes:
    """HTML's named entity as a numeric one: feeds use them without a DTD, and libxml2 drops what it does not know."""
    name = match[1]
    text = None if name in _XML_NAMES else html5.get(name.decode() + ";")
    return match[0] if text is None else "".join(f"&#{ord(character)};" for character in text).encode()


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _name(element: Any) -> str:
    namespace, _, local = element.tag.rpartition("}")
    return _PREFIXES.get(namespace[1:], "") + local


def _entry(element: Any, channel: str | None) -> Entry:
    paths = _IPTC.get(_local(element))
    if paths is not None:
        fields = {field: next(filter(None, (_at(element, path) for path in each)), "") for field, each in paths.items()}
        return {field: text for field, text in fields.items() if text}
    entry: Entry = {}
    about = element.get("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about")
    if about:
        entry["id"] = about
    for child in element.iterchildren(etree.Element):
        _add(entry, _name(child), _markup(child) if _name(child) in _TEXTS else _value(child))
    if channel and not {"link", "source"} & entry.keys():
        entry["source"] = channel.strip()
    return entry


def _value(element: Any) -> Any:
    """An element as JSON: a text, or an object of its attributes (`@name`), children and text (`#text`)."""
    text = (element.text or "").strip()
    value: Entry = {f"@{name.rpartition('}')[2]}": one for name, one in element.attrib.items()}
    for child in element.iterchildren(etree.Element):
        _add(value, _name(child), _value(child))
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
    """The content of an element, its tags as HTML without prefixes."""
    for child in element.iterdescendants(etree.Element):
        child.tag = _local(child)
    etree.cleanup_namespaces(element)
    inner = "".join(etree.tostring(child, encoding="unicode") for child in element.iterchildren(etree.Element))
    return ((element.text or "") + inner).strip()


def _at(element: Any, path: str) -> str:
    """What stands at a path of local names: a text, an attribute, or markup."""
    steps, _, attribute = path.partition("@")
    steps = "/".join(step if step == "." or not step else "{*}" + step for step in steps.rstrip("/").split("/"))
    target = element.find(steps) if steps else element
    if target is None:
        return ""
    return target.get(attribute, "").strip() if attribute else _markup(target)
