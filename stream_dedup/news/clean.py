"""Remove markup: turn the title and text of a record into what a reader sees.

In: two strings and the setting `item.markup`. Out: two strings. Only the compared text is cleaned; the bytes of the
record stay untouched. Plain text costs three searches for one character (.4 µs for 3.7 KB).

Bare URLs stay: removing them changes no verdict on the labelled English and Chinese corpora (16,147 items).
"""

import re
from collections.abc import Callable

from stream_dedup.news.html import decode_entities, is_html, text_of_html, title_of_html
from stream_dedup.news.page import article_extractor, is_page
from stream_dedup.settings import ItemSettings

# A target must look like a URL: "[sic](see below)" is prose. Possessive quantifiers keep the search linear.
_TARGET = r"\((?:https?://|www\.|mailto:|[/#])[^()\s]*+(?:\([^()\s]*+\)[^()\s]*+)*+(?:\s++\"[^\"\n]*+\")?+\)"
_IMAGE = re.compile(rf"!\[[^\[\]]*+\]{_TARGET}")
_LINK = re.compile(rf"\[([^\[\]]*+)\]{_TARGET}")
_REST = re.compile(rf"\]{_TARGET}")  # the end of a link whose text contains brackets


class Cleaner:
    """Removes markup as `item.markup` says.

    >>> from stream_dedup.settings import ItemSettings
    >>> clean = Cleaner(ItemSettings())
    >>> clean("Elm &amp; Oak", "<p>The [bridge](https://a.example/b) is <b>open</b>.</p>")
    ('Elm & Oak', 'The bridge is open.')

    Raises ConfigError if the setting needs an extra that is not installed.
    """

    def __init__(self, settings: ItemSettings) -> None:
        self._markup = settings.markup
        self._article: Callable[[str], str] | None = article_extractor() if settings.markup == "page" else None

    def __call__(self, title: str, text: str) -> tuple[str, str]:
        """Return the cleaned title and text. No content makes it raise."""
        if self._markup == "none":
            return title, text
        if self._article and is_html(text) and is_page(text):
            return _plain(title) or title_of_html(text), self._page(text)
        return _plain(title), _links(text_of_html(text)) if self._markup == "html" else _plain(text)

    def _page(self, html: str) -> str:
        article = self._article(html) if self._article else ""
        return article or text_of_html(html)


def _plain(text: str) -> str:
    if is_html(text):
        text = text_of_html(text)
    elif "&" in text:
        text = decode_entities(text)
        if is_html(text):  # HTML that was escaped a second time on its way into the feed
            text = text_of_html(text)
    return _links(text)


def _links(text: str) -> str:
    """Replace Markdown links by their text and remove Markdown images.

    >>> _links('A [b [c] d](https://e.example/f_(g) "h") [i](/j)s ![k](#l) [1](see there)')
    'A [b [c] d] is  [1](see there)'
    """
    if "]" not in text or "](" not in text:  # searching one character is five times as fast as two
        return text
    # Split and join: a replacement by the group would call Python for each link.
    text = "".join(_LINK.split(_IMAGE.sub("", text)))
    return _REST.sub("]", text) if "](" in text else text
