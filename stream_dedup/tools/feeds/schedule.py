"""Decide when a feed is polled next, from its history, the server's answer and the time. Pure functions."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple

# Seconds. A failing feed is asked some times a day, so a repair is noticed soon. A feed that asks for a longer rest
# (max-age, ttl) usually has a misconfigured cache.
_LONGEST = 6 * 3600.0
# A server may ask for a longer wait after 429 and 503.
MOST_WAIT = 24 * 3600.0
_MOST_DOUBLINGS = 20  # far beyond _LONGEST, and no overflow
_MAX_AGE = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?(\d{1,9})", re.I)
GONE, OK = "gone", "ok"


class Feed(NamedTuple):
    """What is remembered of a feed."""

    url: str
    moved: str = ""  # its new address after a permanent move
    etag: str = ""
    modified: str = ""
    due: float = 0.0  # seconds since 1970
    failures: int = 0
    outcome: str = ""  # of the last poll: OK, GONE or the reason of the failure; empty before the first poll

    @property
    def address(self) -> str:
        return self.moved or self.url

    @property
    def validators(self) -> dict[str, str]:
        """The headers of a conditional request; a validator that is not ASCII cannot be sent."""
        headers = {"If-None-Match": self.etag, "If-Modified-Since": self.modified}
        return {name: value for name, value in headers.items() if value and value.isascii()}


def after_answer(feed: Feed, url: str, headers: Mapping[str, str], now: float, every: float, ttl: float = 0.0) -> Feed:
    """Return the feed after a success, changed or not. `every`, `ttl`: our pause between polls and the feed's, in s.

    >>> address = "http://a.example/"
    >>> feed = after_answer(Feed(address), address, {"cache-control": "max-age=900"}, 0, 600)
    >>> feed.due, feed.moved
    (900.0, '')
    """
    age = _MAX_AGE.search(headers.get("cache-control", ""))
    wait = max(every, min(max(ttl, float(age[1]) if age else 0.0), _LONGEST))
    moved, etag = "" if url == feed.url else url, headers.get("etag", feed.etag)
    return Feed(feed.url, moved, etag, headers.get("last-modified", feed.modified), now + wait, 0, OK)


def after_failure(feed: Feed, reason: str, now: float, every: float, jitter: float, headers: Mapping[str, str]) -> Feed:
    """Return the feed after a failure. The pause doubles with each failure; `jitter` (0 to 1) adds up to a quarter.

    A new address is forgotten: the next poll asks the listed one, whose server knows best.

    >>> after_failure(Feed("http://a.example/", failures=2), "http-500", 0.0, 600.0, 0.5, {}).due
    2700.0
    >>> after_failure(Feed("http://a.example/"), "http-429", 0.0, 600.0, 0.0, {"retry-after": "7200"}).due
    7200.0
    """
    pause = min(every * 2 ** min(feed.failures, _MOST_DOUBLINGS), max(_LONGEST, every)) * (1 + jitter / 4)
    due = now + max(pause, retry_after(headers, now))
    return feed._replace(moved="", due=due, failures=feed.failures + 1, outcome=reason)


def retry_after(headers: Mapping[str, str], now: float) -> float:
    """Return the seconds that a server asks to wait, by a number or a date; 0 if it does not.

    >>> dated = "Thu, 01 Jan 1970 00:01:00 GMT"
    >>> [retry_after({"retry-after": text}, 20.0) for text in ("120", dated, "999999999", "soon")]
    [120.0, 40.0, 86400.0, 0.0]
    """
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text) if re.fullmatch(r"\d{1,9}", text, re.A) else parsedate_to_datetime(text).timestamp() - now
    except (ValueError, OverflowError, TypeError):
        return 0.0
    return min(seconds, MOST_WAIT)
