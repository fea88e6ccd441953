"""What records call the fields of an item: the presets of known formats, and what a name means in any other record.

From the names of a record follow its shape and, for each field, the names that may hold it, the likeliest first. Names
are compared without case, accents and punctuation, so `pub_date` is `pubDate`. Several names may look like that of a
text; their values decide which one is the article (fields.py).
"""

import re
import unicodedata
from collections.abc import Collection, Mapping, Set
from functools import lru_cache

FIELDS = ("id", "title", "text", "source", "url", "published")
"""The fields that stream_dedup reads, by its own names."""

AUTO = "auto"
PLAIN = "plain"
ENVELOPE = "envelope"
"""The shape of an object that only holds the record, such as a CloudEvent or a list with one item; see formats.py."""

PRESETS: Mapping[str, Mapping[str, str]] = {
    PLAIN: {
        "id": "id", "title": "title", "text": "text", "source": "source", "url": "url", "published": "published",
    },
    "webhose": {  # Webz.io (Webhose) news posts
        "id": "uuid", "title": "title", "text": "text", "source": "thread.site", "url": "url", "published": "published",
    },
    "schema_org": {  # https://schema.org/NewsArticle
        "id": "@id|identifier", "title": "headline|name", "text": "articleBody|text|description",
        "source": "publisher.name|publisher", "url": "url|mainEntityOfPage", "published": "datePublished|dateCreated",
    },
    "ninjs": {  # IPTC ninjs 1.x | 2.x and later
        "id": "uri", "title": "headline|headlines", "text": "body_text|body_html|bodies|description_text|descriptions",
        "source": "source|infosources.0.name|infoSources.0.name|infosource.0.name", "url": "link|links.0.href",
        "published": "versioncreated|versionCreated",
    },
    "json_feed": {  # https://www.jsonfeed.org/version/1.1/
        "id": "id|url", "title": "title", "text": "content_html|content_text|summary", "source": "source",
        "url": "url|external_url", "published": "date_published|date_modified",
    },
    "wordpress": {  # posts of its REST API; their id is unique within one site only
        "id": "guid|id", "title": "title", "text": "content|excerpt", "source": "source", "url": "link",
        "published": "date_gmt|date",
    },
    "newsapi": {  # NewsAPI, GNews, mediastack, Currents
        "id": "id|url", "title": "title", "text": "content|description", "source": "source.url|source.name|source",
        "url": "url", "published": "publishedAt|published_at|published",
    },
    "atom": {  # RFC 4287, and the entries of feedparser
        "id": "id|link", "title": "title", "text": "content|summary", "source": "source", "url": "link|links",
        "published": "published|issued|updated|modified|created",
    },
    "rss": {  # RSS 2.0 and 1.0 items, from whatever turned their XML into JSON
        "id": "guid|id|link", "title": "title",
        "text": "content:encoded|content_encoded|encoded|content|description|summary|text", "source": "source",
        "url": "feedburner:origLink|link|url",
        "published": "pubDate|pubdate|isoDate|dc:date|published|date|dcterms:issued|dcterms:created|atom:published"
        "|atom:updated",
    },
    "gdelt": {  # article lists and contexts of the GDELT DOC and Context APIs: headlines, few with a sentence
        "id": "url", "title": "title", "text": "context|sentence", "source": "domain", "url": "url|url_mobile",
        "published": "seendate",
    },
}  # fmt: skip
"""For each preset: field -> alternative dotted paths (a|b); a number is an index into a list. If several alternatives
are filled, the fullest text counts; for other fields the first filled one does."""

CRAWLED = (
    "crawled", "crawledat", "crawldate", "crawltime", "fetched", "fetchedat", "scraped", "scrapedat", "scrapedate",
    "retrieved", "retrievedat", "indexedat", "collectedat", "harvestedat", "downloadedat",
)  # fmt: skip
"""Dates of last resort: when a crawler came, not when the article was published."""
# What other names mean, the likeliest first: English, then German, French, Spanish, Italian, Portuguese.
_MEANINGS = {
    "id": "id idstr guid uuid identifier uri articleid newsid postid storyid docid documentid itemid artikelid "
    "artikelnr artikelnummer identifiant identificador identificativo",
    "title": "title headline headlinemain headlinetext heading webtitle articletitle newstitle posttitle storytitle "
    "maintitle subject titel uberschrift ueberschrift schlagzeile titre titulo titular encabezado titolo manchete "
    "basic name",
    "source": "source sourceurl sourcedomain sourcename cleanurl domain hostname host site sitename website origin "
    "publisher publishername publication newspaper newssource outlet mediaurl medianame provider agency quelle zeitung "
    "medium fuente medio periodico fonte giornale journal veiculo",
    "url": "url link weburl articleurl newsurl storyurl posturl fullurl sourcelink permalink canonical canonicalurl "
    "alternate href pageurl lien enlace collegamento",
    "published": "published publishedat publisheddate publishedon publishdate publishtime pubdate datepublished "
    "datepublish datetimepub createdtime newsdate articledate webpublicationdate firstpublicationdate "
    "publicationdate publicationtime publicationdatetime isodate datetime date dategmt posted postedat createdat "
    "created creationdate createdutc timestamp time datum veroffentlicht veroeffentlicht veroffentlichtam "
    "veroeffentlichtam erscheinungsdatum datepublication dateparution datedepublication fecha fechapublicacion "
    "fechadepublicacion data datapubblicazione datadipubblicazione datapublicacao publishingdate timepublished "
    "createdontime displaydate firstpublishdate firstpublished firstpublishedat publishedtime publisheddatetime "
    "publishdatetime pubdatetime pubtime issued updated updatedat modified " + " ".join(CRAWLED),
}  # fmt: skip
_RANKS = {field: {name: rank for rank, name in enumerate(names.split())} for field, names in _MEANINGS.items()}
# How the name of a text ends, and what shows that the text belongs to something else.
_TEXT_NAME = re.compile(
    "(text|content|body|desc|story|article|document|description|summary|excerpt|abstract|snippet|teaser|lead|paragraph|encoded|html|"
    "message|transcript|intro|inhalt|artikel|beschreibung|zusammenfassung|texte|contenu|corps|chapo|texto|contenido|"
    "cuerpo|articulo|descripcion|resumen|testo|contenuto|corpo|articolo|descrizione|riassunto|sommario|conteudo|"
    "descricao|sentence|nitf|bodie)s?\\Z"
)
_OTHER_TEXT = re.compile(
    "image|photo|author|comment|licen[cs]e|copyright|disclaimer|headline|title|titel|translat|caption|video|"
    "^(source|feed|channel|site|publisher|link|alt|query|search)"
)
_TRANSLATED = re.compile(r"[a-z]{2}[-_]|.*[-_][a-z]{2}\Z")  # such as en-content, beside the content of the publisher
WRAPPERS = frozenset(
    ("Item", "article", "attributes", "data", "doc", "document", "elements", "entry", "extended_tweet", "fields",
    "headlines", "item", "news", "node", "payload", "post", "promo", "properties", "record", "row", "_source", "story",
    "sys", "tweet")
)  # fmt: skip
"""Objects that may wrap the fields of an item. Such a field is called `data.title`, whether it is nested or flat."""
STRINGS = frozenset(("Message", "Body", "body", "value", "Data", *WRAPPERS))
"""Members that may hold the content of a message as a string of JSON or Base64."""
LISTS = frozenset(
    ("@graph", "articles", "channel", "children", "data", "docs", "documents", "entries", "entry", "feed", "hits",
    "item", "itemListElement", "items", "news", "posts", "rdf:RDF", "records", "response", "results", "rows", "rss",
    "stories", "value")
)  # fmt: skip
"""Names of lists of items, and of objects around such lists."""
PARTS = re.compile(
    "image|photo|thumb|media|video|author|comment|link|attach|enclos|tag|categor|keyword|related|entit|bodies"
)
"""Lists and objects of these names are parts of an article, and none of its items and texts."""
NODES = frozenset(
    ("acf", "blocks", "bodyblocks", "children", "components", "contentblocks", "contentelements", "elements", "lexical",
    "liveblogupdate", "mobiledoc", "nodes", "results", "richtext", "root", "sections")
)  # fmt: skip
"""Names of a text in nodes; a plain string there is none (plain_values.py)."""
_QUEUES = ("after", "MessageId", "messageId", "subscription", "ackId", "kinesis", "Data", "Sns", "detail-type")
SPECIAL = frozenset(("specversion", *_QUEUES, *LISTS, *WRAPPERS))
"""Members that may show an envelope or a wrapper. All CloudEvents have the first one; for the next see formats.py."""


def alternatives(path: str) -> list[str]:
    """Split the alternatives of a path.

    >>> alternatives("publisher.name | publisher")
    ['publisher.name', 'publisher']
    """
    return [alternative.strip() for alternative in path.split("|")]


def shape_of(names: Set[str], fields: Collection[str] = FIELDS) -> str:
    """Return the preset that finds the most `fields` under different names; ties go to the first. O(presets).

    A preset qualifies only if it finds the text, or title and date. Otherwise a record with "headline" and "body" would
    be read as schema.org because of its headline, and would lose its text silently. If none qualifies: `plain`.

    >>> shape_of({"guid", "title", "description", "link", "pubDate"}), shape_of({"id", "title", "text", "summary"})
    ('rss', 'plain')
    >>> shape_of({"headline", "body"})
    'plain'
    """
    best, most = PLAIN, len(_names_found(PRESETS[PLAIN], names, fields))
    for shape, paths in PRESETS.items():
        tops = _names_found(paths, names, fields)
        is_article = "text" not in fields or "text" in tops or ("title" in tops and "published" in tops)
        count = len(set(tops.values()))
        if is_article and count > most:
            best, most = shape, count
    return best


def _names_found(paths: Mapping[str, str], names: Set[str], fields: Collection[str]) -> dict[str, str]:
    """Map each field that is found to the top-level name under which it is found."""
    top_of = {}
    for field in fields:
        tops = [top for path in alternatives(paths[field]) for top in (path, path.split(".")[0]) if top in names]
        if tops:
            top_of[field] = tops[0]
    return top_of


@lru_cache(1024)
def plain_name(name: str) -> str:
    """Return a name without namespace, wrapper, case, accents and punctuation.

    >>> plain_name("pub_date"), plain_name("dc:Date"), plain_name("Überschrift"), plain_name("fields.bodyText")
    ('pubdate', 'date', 'uberschrift', 'bodytext')
    """
    wrapper, _, inner = name.partition(".")
    while wrapper in WRAPPERS and inner:
        name = inner
        wrapper, _, inner = name.partition(".")
    last = re.split("[:/#]", name)[-1]
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKD", last).casefold())


def is_text_name(name: str) -> bool:
    """Return whether a name looks like the name of a text.

    >>> [is_text_name(name) for name in ("maintext", "yandex:full-text", "image_description", "@context")]
    [True, True, False, False]
    """
    plain = plain_name(name)
    is_text = _TEXT_NAME.search(plain) and not _OTHER_TEXT.search(plain)
    return bool(is_text) and not name.startswith("@") and name not in LISTS


def meant_by(names: Collection[str], field: str) -> list[str]:
    """Return the names that mean a field, the likeliest first; one without a namespace precedes one with a namespace.

    >>> meant_by(["Datum", "dc:title", "Titel", "body"], "title"), meant_by(["Datum", "body"], "text")
    (['dc:title', 'Titel'], ['body'])
    """
    if field == "text":
        texts = sorted(filter(is_text_name, names), key=len)
        return [name for name in texts if not _TRANSLATED.match(name)] or texts
    ranks = _RANKS[field]
    ranked = [(ranks[plain], len(name), name) for name in names if (plain := plain_name(name)) in ranks]
    return [name for _, _, name in sorted(ranked)]
