"""[item]: how a record becomes a news item."""

from typing import Literal

from pydantic import Field

from stream_dedup.settings.values import Table


class ItemSettings(Table):
    """Where an item's fields stand in the record."""

    format: Literal["json", "text"] = Field(
        "json", description="json: an object; text: the whole value is the text, the key is the id."
    )
    markup: Literal["auto", "none", "html", "page"] = Field(
        "auto",
        description="What title and text are written in; only what is compared is cleaned, the record stays as it is. "
        "auto: tags, entities and Markdown links are taken out where there are any; none: nothing is; "
        "html: the text is always HTML; page: as auto, and of a whole page only the article counts (extra: pages).",
    )
    preset: Literal[
        "auto", "plain", "webhose", "schema_org", "ninjs", "json_feed", "wordpress", "newsapi", "atom", "rss", "gdelt"
    ] = Field(
        "auto",
        description="Which names are read. auto: of the others the one that finds most, each record by itself; "
        "plain: id, title, text, source, url, published; webhose: Webz.io posts; schema_org: NewsArticle; ninjs: IPTC "
        "ninjs; json_feed: JSON Feed; wordpress: its REST API; newsapi: NewsAPI and its like; atom: Atom, feedparser; "
        "rss: RSS items; gdelt: GDELT article lists. Their names: docs/feeds.md.",
    )
    fields: dict[Literal["id", "title", "text", "source", "url", "published"], str] = Field(
        default_factory=dict,
        description="Overrides of the preset, field by field: our name -> dotted path in the JSON object, e.g. "
        "title = 'head.line'; 'a|b': b where a is missing or empty.",
    )
    fingerprint: str | None = Field(
        None,
        min_length=1,
        description="Dotted path of a 64-bit fingerprint that the item brings along (an image's perceptual hash, "
        "another team's SimHash): a whole number or 16 hex digits. It stands in for headline and text, which are not "
        "read; goes with [fingerprint] family = 'given'.",
    )
