"""A whole page -> its article, without menus, teasers and comments (trafilatura, the extra `pages`).

In: a string. Out: the article's text, or empty where none was found. Source: Barbaresi, "Trafilatura: a web
scraping library and command-line tool for text discovery and extraction", ACL 2021.
"""

import re
from collections.abc import Callable
from functools import cache

from stream_dedup.errors import ConfigError

# Beyond either a page is read as feed HTML: 100,000 tags took up to 11 s, 10,000 one. The largest of 370 real article
# pages has 4,399 tags and 1.1 million characters.
_MOST_TAGS = 10_000
_MOST_CHARACTERS = 4_000_000
# A page says so at its start; "<body" alone is what some crawlers keep of it.
_PAGE = re.compile(r"<(?:!doctype\s|html[\s>]|head[\s>]|body[\s>])", re.IGNORECASE)
_START = 2_000


def is_page(html: str) -> bool:
    """Whether a whole page rather than a feed's piece of HTML.

    >>> is_page("<!DOCTYPE html><html><body><p>x"), is_page("<p>x")
    (True, False)
    """
    return _PAGE.search(html, 0, _START) is not None


@cache
def article_extractor() -> Callable[[str], str]:
    """The extraction, loaded when first asked for (it takes half a second). Raises ConfigError without the extra."""
    try:
        from trafilatura import extract
    except ImportError:
        raise ConfigError(
            '[item] markup = "page" needs trafilatura: pip install "stream-dedup[pages]", or choose "auto"'
        ) from None

    def article(html: str) -> str:
        if len(html) > _MOST_CHARACTERS or html.count("<") > _MOST_TAGS:
            return ""
        try:
            return extract(html, include_comments=False) or ""
        except Exception:  # noqa: BLE001 - another's parser on hostile input: whatever it is, the page has a plain text
            return ""

    return article
