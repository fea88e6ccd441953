"""Extract the article from a whole web page, without menus, teasers and comments (trafilatura, extra `pages`).

In: a string. Out: the article's text, empty if none was found. Source: Barbaresi, "Trafilatura: a web
scraping library and command-line tool for text discovery and extraction", ACL 2021.
"""

import re
from collections.abc import Callable
from functools import cache

from stream_dedup.errors import ConfigError
from stream_dedup.phrases import install_command

# Larger pages are read as feed HTML: 100,000 tags took up to 11 s, 10,000 tags one. The largest of 370 real article
# pages has 4,399 tags and 1.1 million characters.
_MOST_TAGS = 10_000
_MOST_CHARACTERS = 4_000_000
# Every page begins with one of these; some crawlers keep only its "<body".
_PAGE = re.compile(r"<(?:!doctype\s|html[\s>]|head[\s>]|body[\s>])", re.IGNORECASE)
_START = 2_000


def is_page(html: str) -> bool:
    """Whether a text is a whole page and not a fragment of HTML.

    >>> is_page("<!DOCTYPE html><html><body><p>x"), is_page("<p>x")
    (True, False)
    """
    return _PAGE.search(html, 0, _START) is not None


@cache
def article_extractor() -> Callable[[str], str]:
    """Load trafilatura's extractor at first use (half a second). Raises ConfigError if the extra is not installed."""
    try:
        from trafilatura import extract
    except ImportError:
        raise ConfigError(
            f'[item] markup = "page" needs trafilatura: {install_command("pages")}, or choose "auto"'
        ) from None

    def article(html: str) -> str:
        if len(html) > _MOST_CHARACTERS or html.count("<") > _MOST_TAGS:
            return ""
        try:
            return extract(html, include_comments=False) or ""
        except Exception:  # noqa: BLE001 - a third-party parser on hostile input: fall back to the page's plain text
            return ""

    return article
