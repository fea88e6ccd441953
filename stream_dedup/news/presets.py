"""Field names of known record formats (presets), and the choice of the preset that fits a record.

In: the non-empty top-level names of a record. Out: the name of a preset. Each record is looked at by itself,
independent of earlier ones: a worker may start anywhere, several workers may share a feed, and a feed may mix formats.
"""

from collections.abc import Collection, Mapping, Set

FIELDS = ("id", "title", "text", "source", "url", "published")
"""The fields that stream_dedup reads, by its own names."""

AUTO = "auto"
PLAIN = "plain"

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
        "id": "uri", "title": "headline|headlines.0.value",
        "text": "body_text|body_html|bodies.0.value|description_text|descriptions.0.value",
        "source": "source|infosources.0.name", "url": "link|links.0.href", "published": "versioncreated|versionCreated",
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
        "published": "published|updated",
    },
    "rss": {  # RSS 2.0 and 1.0 items, from whatever turned their XML into JSON
        "id": "guid|id|link", "title": "title",
        "text": "content:encoded|content_encoded|encoded|content|description|summary|text", "source": "source",
        "url": "feedburner:origLink|link|url", "published": "pubDate|pubdate|isoDate|dc:date|published|date",
    },
    "gdelt": {  # article lists and contexts of the GDELT DOC and Context APIs: headlines, few with a sentence
        "id": "url", "title": "title", "text": "context|sentence", "source": "domain", "url": "url|url_mobile",
        "published": "seendate",
    },
}  # fmt: skip
"""For each preset: field -> alternative dotted paths (a|b); a number is an index into a list. If several alternatives
are filled, the fullest text counts; of other fields the first one counts."""


def alternatives(path: str) -> list[str]:
    """Split the alternatives of a path.

    >>> alternatives("publisher.name | publisher")
    ['publisher.name', 'publisher']
    """
    return [alternative.strip() for alternative in path.split("|")]


def shape_of(names: Set[str], fields: Collection[str] = FIELDS) -> str:
    """Return the preset that finds the most `fields` under different names, the first of equals. O(presets).

    A preset qualifies only if it finds the text, or title and date: a record with "headline" and "body" must not be
    read as schema.org because of its headline, since its text would be lost silently. If no preset qualifies: `plain`.

    >>> shape_of({"guid", "title", "description", "link", "pubDate"}), shape_of({"id", "title", "text", "summary"})
    ('rss', 'plain')
    >>> shape_of({"headline", "body"})
    'plain'
    """
    best, most = PLAIN, len(_found(PRESETS[PLAIN], names, fields))
    for shape, paths in PRESETS.items():
        found = _found(paths, names, fields)
        is_article = "text" not in fields or "text" in found or ("title" in found and "published" in found)
        count = len(set(found.values()))
        if is_article and count > most:
            best, most = shape, count
    return best


def _found(paths: Mapping[str, str], names: Set[str], fields: Collection[str]) -> dict[str, str]:
    """Map each field that is found to the top-level name under which it is found."""
    tops = ((field, (alternative.split(".")[0] for alternative in alternatives(paths[field]))) for field in fields)
    first = ((field, next((top for top in each if top in names), None)) for field, each in tops)
    return {field: top for field, top in first if top is not None}
