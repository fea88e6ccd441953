"""[item]: how a record becomes a news item."""

from typing import Literal

from pydantic import Field

from stream_dedup.settings.values import Table


class ItemSettings(Table):
    """Where a record has the fields of an item."""

    format: Literal["json", "text"] = Field(
        "json",
        description="Format of the record. json: a JSON object; text: the value is the text and the key is the id.",
    )
    markup: Literal["auto", "none", "html", "page"] = Field(
        "auto",
        description="Markup of title and text. It is removed for the comparison only; the record stays unchanged. "
        "auto: remove tags, entities and Markdown links where there are any; none: remove nothing; html: parse the "
        "text as HTML always; page: as auto, and extract the article from a whole page (install the extra `pages`).",
    )
    preset: Literal[
        "auto", "plain", "webhose", "schema_org", "ninjs", "json_feed", "wordpress", "newsapi", "atom", "rss", "gdelt"
    ] = Field(
        "auto",
        description="Names of the fields. auto: for each record, the preset that finds most fields; "
        "plain: id, title, text, source, url, published; webhose: Webz.io posts; schema_org: NewsArticle; ninjs: IPTC "
        "ninjs; json_feed: JSON Feed; wordpress: its REST API; newsapi: NewsAPI and similar; atom: Atom, feedparser; "
        "rss: RSS items; gdelt: GDELT article lists. docs/feeds.md lists the names.",
    )
    fields: dict[Literal["id", "title", "text", "source", "url", "published"], str] = Field(
        default_factory=dict,
        description="Fields that differ from the preset: our name = dotted path in the JSON object, such as "
        "title = 'head.line'. 'a|b' reads b where a is missing or empty.",
    )
    fingerprint: str | None = Field(
        None,
        min_length=1,
        description="Dotted path of a 64-bit fingerprint in the record (a perceptual hash of an image, a SimHash of "
        "another system): a whole number or 16 hex digits. It replaces headline and text, which are not read. Requires "
        "[fingerprint] family = 'given'.",
    )
