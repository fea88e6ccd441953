"""Turn news in XML into JSON objects: RSS 0.9x, 1.0 and 2.0, Atom, NITF, NewsML 1 and NewsML-G2, and any other XML with
an element for each article.

repair.py parses the bytes, which may hold several documents. Each entry becomes a dict with names that the presets of
names.py know: an entry of a feed keeps the names of its elements (`rss`, `atom`), a document of the IPTC's formats gets
the names of ninjs. Texts are HTML or plain, as in the JSON that publishers make of the same articles.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import urljoin

from lxml import etree

from stream_dedup.errors import BadItem
from stream_dedup.news.clean import ELEMENTS
from stream_dedup.news.names import PARTS, is_text_name, meant_by
from stream_dedup.news.plain_values import plain_value
from stream_dedup.news.repair import documents_of, local_name

Entry = dict[str, Any]

# The prefixes by which presets know elements of other namespaces, whatever a document calls them.
_PREFIXES = {
    "http://www.w3.org/2005/Atom": "atom:",
    "http://purl.org/rss/1.0/modules/content/": "content:",
    "http://purl.org/dc/elements/1.1/": "dc:",
    "http://purl.org/dc/terms/": "dcterms:",
    "http://rssnamespace.org/feedburner/ext/1.0": "feedburner:",
    "http://news.yandex.ru": "yandex:",
    "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes:",
}
# Elements that hold a text: tags in them are markup and not structure. Among several the longest counts.
_TEXTS = frozenset(
    ("title", "description", "summary", "content", "content:encoded", "yandex:full-text", "itunes:summary")
)
_XHTML = "{http://www.w3.org/1999/xhtml}body"
_ABOUT = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}about"
_MEDIA = ".//{http://search.yahoo.com/mrss/}description"
# Block elements of NITF that HTML does not know. They become div, so that words before and after do not join and an
# empty one is no text. So do elements without a name, such as <media:>.
_BLOCK = re.compile(
    "block|hl2|byline|dateline|abstract|tagline|bq|credit|note|media|media-caption|media-producer|(?![A-Za-z_]).*"
)
# For each root or item element of the IPTC's formats: where the fields of ninjs are, as paths of local names. The first
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
_XML = "{http://www.w3.org/XML/1998/namespace}"  # xml:base and xml:lang are no members of an entry
_CHANNELS = frozenset(("channel", "feed"))
_LINKS = frozenset(("link", "source", "feedburner:origLink", "enclosure"))
_ADDRESSES = frozenset(("@href", "@url"))
_URL = re.compile(r"https?://", re.I)
_MOST_ENTRIES = 200_000  # of a document; each takes half a kilobyte
_MISMATCH = "ERR_TAG_NAME_MISMATCH"
# The namespaces that an element declares.
_DECLARATIONS = re.compile(r'(<[\w.-]+)(?: xmlns(?::[\w.-]+)?="[^"<>]*")+')
_TITLE_AND_LINK = frozenset(("title", "link"))
# Feeds of old programs have their names in capitals, or in some of them.
_HEAD, _ROOTS = 2000, (b"rss", b"rdf:RDF", b"RDF", b"feed")
_ROOT, _TAG_NAME = re.compile(rb"(?i)<(rss|(?:rdf:)?rdf|feed)[\s>]"), re.compile(rb"</?[A-Za-z][\w:.-]*(?=[\s/>])")
NO_NEWS = (
    "is neither a feed (RSS, Atom) nor NITF or NewsML, and no element of it has a headline or a text under a known "
    "name; convert it to JSON Lines"
)
"""The end of the detail of a document that is XML, and no news."""
OPML = "it is OPML, a list of feeds and no news; to read those: stream-dedup feeds FILE"


def entries(value: bytes, charset: str = "", note: Callable[[str], None] = lambda _: None) -> list[Entry]:
    """Return the entries of the documents in order. O(bytes). For `charset` and `note` see `text_of`.

    >>> entries(b"<rss><channel><item><title>A &amp; B & C</title><guid>7</guid></item></channel></rss>")
    [{'title': 'A & B & C', 'guid': '7'}]

    Raises BadItem (reason `xml`) for a document of an unknown format, for declared entities, and where an entry would
    be lost.
    """
    taken, site, nested = list[Entry](), "", ""

    def take(element: Any) -> bool:
        nonlocal site, nested
        name = local_name(element)
        if name == "link":
            if not site and local_name(element.getparent()) in _CHANNELS:
                site = plain_value("url", _value(element, "")) or ""
            return False
        if next(element.iterancestors(*_OUTERMOST), None) is None:
            taken.append(_entry(element))
            element.clear(keep_tail=True)
            if len(taken) > _MOST_ENTRIES:
                raise BadItem("xml", f"it has more than {_MOST_ENTRIES:,} entries; split it")
            return True
        if name not in _IPTC and next(element.iterancestors(element.tag), None) is not None:
            nested = name
        return False

    if (root := _ROOT.search(value[:_HEAD])) and root[1] not in _ROOTS:
        value = _TAG_NAME.sub(lambda tag: tag[0].lower(), value)
    errors, documents = documents_of(value, charset, (*_OUTERMOST, "{*}link"), take, note)
    kinds = [local_name(root) for root in documents]
    if kinds and kinds[0].lower() == "opml":
        raise BadItem("xml", OPML)
    if nested and _MISMATCH in errors:
        raise BadItem("xml", f"a <{nested}> stands within another: one of its tags is not closed")
    if kinds and not taken and not _FEEDS & {*kinds}:
        found = _articles_in(documents) if kinds[0].lower() != "html" else []
        if not found:
            raise BadItem("xml", f"<{kinds[0]}> {NO_NEWS}")
        kinds = [*dict.fromkeys(map(local_name, found))]
        note(f"is read as one item for each <{'>, <'.join(kinds)}>, as it is no known kind of XML")
        texts = [(element.text or "").strip() for element in found]
        taken += [
            {**element.attrib, **({"text": text} if text else {}), **_members(element, "", is_text=_is_prose)}
            for element, text in zip(found, texts, strict=True)
        ]
    return [_located(entry, site) for entry in taken]


def _entry(element: Any) -> Entry:
    paths = _IPTC.get(local_name(element))
    if paths is not None:
        return {field: _first(element, field, path.split("|")) for field, path in paths.items()}
    entry = _members(element, element.tag.rpartition("}")[0])
    if element.get(_ABOUT):
        entry["id"] = element.get(_ABOUT)
    if not any(entry.get(name) for name in _TEXTS - {"title"}) and (media := element.find(_MEDIA)) is not None:
        entry["summary"] = _markup(media)
    return entry


def _located(entry: Entry, site: str) -> Entry:
    """Make the links of an entry absolute. One without a link gets its permanent id, or the feed's site as source."""
    link, guid = plain_value("url", entry.get("link")), entry.get("guid")
    is_permanent = not isinstance(guid, dict) or str(guid.get("@isPermaLink", "true")).lower() != "false"
    if not link and is_permanent and _URL.match(str(guid := plain_value("id", guid))):
        entry["link"] = link = guid
    for name in _LINKS & entry.keys() if site else ():
        entry[name] = _absolute(entry[name], site)
    if link and entry.keys() <= _TITLE_AND_LINK:  # RSS 0.90
        entry["id"] = link
    if site and not link and not entry.get("source"):
        entry["source"] = site
    return entry


def _absolute(value: Any, base: str) -> Any:
    """Join a link, or each of several, to this base address."""
    if isinstance(value, list):
        return [_absolute(link, base) for link in value]
    if isinstance(value, dict):
        return value | {name: _joined(base, value[name]) for name in _ADDRESSES & value.keys()}
    return _joined(base, value)


def _joined(base: str, link: str) -> str:
    try:
        return urljoin(base, link) if base and link and not _URL.match(link) else link
    except ValueError:  # a malformed address
        return link


def _members(
    element: Any, entry_namespace: str, is_text: Callable[[Any, str], bool] = lambda _, name: name in _TEXTS
) -> Entry:
    """Return the child elements by name: texts as markup, the longest of several; others as a value, or a list."""
    by_name: dict[str, list[Any]] = {}
    for child in element.iterchildren(etree.Element):
        name = _name(child, entry_namespace)
        value = _markup(child) if is_text(child, name) else _value(child, entry_namespace)
        if name in _LINKS and (base := child.base):  # xml:base
            value = _absolute(value, base)
        by_name.setdefault(name, []).append(value)
    return {
        name: max(values, key=len) if name in _TEXTS else values if len(values) > 1 else values[0]
        for name, values in by_name.items()
    }


def _name(element: Any, entry_namespace: str) -> str:
    """Return the name as feeds use it. Elements of the namespace of the entry have no prefix.

    An element of a foreign namespace keeps its prefix, so that it is not taken for a title or a text.
    """
    namespace, _, local = element.tag.rpartition("}")
    if namespace in ("", entry_namespace):
        return str(local)
    if element.tag == _XHTML:
        return "content:encoded"
    prefix = _PREFIXES.get(namespace[1:], f"{element.prefix}:" if element.prefix else "")
    return f"{prefix}{local}"


def _value(element: Any, entry_namespace: str) -> Any:
    """Return an element as JSON: a text, or an object of attributes (`@name`), children and text (`#text`)."""
    text = (element.text or "").strip()
    attributes = {f"@{name.rpartition('}')[2]}": value for name, value in element.attrib.items() if _XML not in name}
    value = attributes | _members(element, entry_namespace)
    return value | {"#text": text} if value and text else value or text


def _markup(element: Any) -> str:
    """Return the content of an element: its text, or HTML if it has tags."""
    if not len(element):
        return (element.text or "").strip()
    # HTML, because a browser reads XML's `<script/>` as a script without an end. A tree of its own without prefixes,
    # because lxml writes all declarations of the document into each element that it takes out.
    alone = etree.Element("div")
    alone.text = element.text
    alone.extend(element)
    for child in alone.iterdescendants(etree.Element):
        local = local_name(child)
        child.tag = "div" if _BLOCK.fullmatch(local) else local
        for name in child.attrib if child.attrib else ():
            if name[0] == "{":
                del child.attrib[name]
    inner = etree.tostring(alone, encoding="unicode", method="html")[len("<div>") : -len("</div>")]
    return _DECLARATIONS.sub(r"\1", inner).strip()


def _first(element: Any, field: str, paths: list[str]) -> str:
    """Return the first text at these paths. An empty body counts, too: around it stand headlines and slugs."""
    for path in paths:
        text = _at(element, path)
        if text or (text is not None and field == "body_html"):
            return text
    return ""


def _at(element: Any, path: str) -> str | None:
    """Return the text, attribute or markup at a path of local names; None if there is no such element."""
    steps, _, attribute = path.partition("@")
    steps = "/".join(step if step == "." or not step else "{*}" + step for step in steps.rstrip("/").split("/"))
    target = element.find(steps) if steps else element
    if target is None:
        return None
    return target.get(attribute, "").strip() if attribute else _markup(target)


# -- XML of no known kind ----------------------------------------------------------------------------------

# The articles are the elements that have a headline or a text under a usual name. An element whose text is longer than
# those of the elements in it is an article with sections; so is one with an id, an address or a date, if they have
# none. The root, and any other element with articles in it, is a list of them.
_DEEPEST = 5
# Tags within a text. The others of HTML are structure in XML of no known kind.
_STRUCTURE = "article body data head html link section source summary time title"
_MARKUP = ELEMENTS - {*_STRUCTURE.split()}


class _Article(NamedTuple):
    element: Any
    length: int  # of its text, 0 if it has a headline alone
    is_titled: bool
    is_placed: bool  # whether it has an id, an address or a date


def _articles_in(roots: Sequence[Any]) -> list[Any]:
    """Return the elements that are articles, in order. O(bytes of the upper levels).

    >>> root = etree.XML("<all><day><story><title>A</title></story><story><body>One.</body></story></day></all>")
    >>> [element.tag for element in _articles_in([root])], _articles_in([root[0][0][0]])
    (['story', 'story'], [])
    """
    found = [article for root in roots for article in _below(root, _DEEPEST)]
    tags = Counter(article.element.tag for article in found)
    # A headline alone is that of anything, if no other element of its name has one.
    articles = [article.element for article in found if article.length or tags[article.element.tag] > 1]
    return articles or [root for root in roots if _longest_text(root) >= 0]


def _below(element: Any, depth: int) -> Iterator[_Article]:
    """Yield the articles in an element, or itself."""
    children = list(element.iterchildren(etree.Element))
    below = [child for child in children if depth and not PARTS.search(str(child.tag))]
    inner = [article for child in below for article in _below(child, depth - 1)]
    length, names = _longest_text(element), [*element.attrib, *map(local_name, children)]
    is_placed = any(meant_by(names, field) for field in ("id", "url", "published"))
    is_titled = bool(meant_by(names, "title"))
    is_list = not is_placed or depth == _DEEPEST or any(article.is_placed for article in inner)
    is_list = is_list and any(article.is_titled >= is_titled for article in inner)
    if length < 0 or (inner and is_list and max(article.length for article in inner) >= length):
        yield from inner
    else:
        yield _Article(element, length, is_titled, is_placed)


def _is_prose(element: Any, name: str) -> bool:
    """Return whether an element holds a headline or a text, whose tags are markup."""
    is_text = is_text_name(name) or meant_by([name], "title")
    return bool(is_text) and all(
        local_name(child).lower() in _MARKUP for child in element.iterdescendants(etree.Element)
    )


def _longest_text(element: Any) -> int:
    """Return the length of an element's longest text; 0 if it has only a headline, and -1 if neither."""
    texts = [
        (name, "".join(child.itertext()).strip())
        for child in element.iterchildren(etree.Element)
        if _is_prose(child, name := local_name(child))
    ]
    texts += [(name, value) for name, value in element.attrib.items() if is_text_name(name) or _is_headline(name)]
    if any(map(_is_headline, element.attrib)) and not len(element):
        texts.append(("text", (element.text or "").strip()))
    return max((len(text) * is_text_name(name) for name, text in texts if text), default=-1)


def _is_headline(name: str) -> bool:
    """Return whether an attribute of this name is a headline; a name is that of anything."""
    return name != "name" and bool(meant_by([name], "title"))
