"""The tables that verdicts depend on: [item], [window], [fingerprint], [decision], [policy], [sources] and [index]."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, create_model, model_validator

from stream_dedup.settings.base import Duration, SecretTable, Share, Table

FEWEST_ORIGINALS = 20_000
"""The least that [window] max_originals allows."""


class ItemSettings(Table):
    """Where a record has the fields of an item."""

    markup: Literal["auto", "none", "html", "page"] = "auto"
    """Markup of title and text. It is removed for the comparison only; the record stays unchanged. auto: remove tags,
    entities and Markdown links where there are any; none: remove nothing; html: parse the text as HTML always; page: as
    auto, and extract the article from a whole page (install the extra `pages`)."""
    preset: Literal[
        "auto", "plain", "webhose", "schema_org", "ninjs", "json_feed", "wordpress", "newsapi", "atom", "rss", "gdelt",
        "text",
    ] = "auto"  # fmt: skip
    """Names of the fields. auto: for each record, the preset that finds most fields; plain: id, title, text, source,
    url, published; webhose: Webz.io posts; schema_org: NewsArticle; ninjs: IPTC ninjs; json_feed: JSON Feed; wordpress:
    its REST API; newsapi: NewsAPI and similar; atom: Atom, feedparser; rss: RSS items; gdelt: GDELT article lists.
    docs/feeds.md lists the names. text: no fields: the record's value is the text, and its key the id."""
    fields: dict[Literal["id", "title", "text", "source", "url", "published", "fingerprint"], str] = Field(
        default_factory=dict
    )
    """Fields that differ from the preset: our name = dotted path in the JSON object, such as title = 'head.line', or
    the name of a column. 'a|b' reads b where a is missing or empty. fingerprint: a 64-bit fingerprint of the record's
    own (a perceptual hash of an image, a SimHash of another system), a whole number or 16 hex digits. It replaces
    headline and text, which are not read, and needs [fingerprint] family = 'given'."""
    query: str | None = Field(None, min_length=1)
    """Where the items are in documents and records of a shape that is not known, and their fields, in JMESPath
    (https://jmespath.org): 'data.items' or 'data.items[].{id: url, title: head.main, text: body[].p}'. A list of texts
    is joined. '@' reads a record as one item, whatever lists it has. `check --query` tries one."""
    time: Literal["record", "published"] = "record"
    """On Kafka, what an item's time is. record: the record's timestamp; published: the item's own date, as in files,
    for a backfill, or where producers send late. All members of a group need the same."""

    @property
    def has_fingerprints(self) -> bool:
        """Whether the records bring their own fingerprints, in place of headline and text."""
        return "fingerprint" in self.fields

    @model_validator(mode="after")
    def _has_dates(self) -> "ItemSettings":
        if self.preset == "text" and self.time == "published":
            raise ValueError("time = 'published' would not be used: with preset = 'text' an item has no date")
        if self.preset == "text" and self.has_fingerprints:
            raise ValueError("fields.fingerprint would not be used: with preset = 'text' a record has no fields")
        return self


_FUTURE_MS = 3_600_000
"""How far an item's time may be ahead of the clock: more than clocks are apart. Beyond it, as an announced article is,
the item gets the current time of its partition, which is as good."""


class WindowSettings(Table):
    """How long, and how many, originals are remembered."""

    length: Duration = Field(timedelta(days=7), gt=timedelta(0))
    """How long an original is remembered. Most copies come within hours; a week covers weekend round-ups and late
    archives."""
    max_originals: int | None = Field(None, ge=FEWEST_ORIGINALS, le=2**31)
    """Most originals remembered by each task. Beyond it the first to arrive are forgotten, whatever their time, so that
    memory stays bounded even where timestamps do not advance. Unset: what [worker] memory has room for. Set it where
    members of a group have different memory: all must have the same value."""

    @property
    def length_ms(self) -> int:
        """`length` in milliseconds, the unit of event times."""
        return self.length // timedelta(milliseconds=1)

    def latest(self, now: int) -> int:
        """Return the latest event time that is accepted when the clock shows `now`, both in ms."""
        return now + _FUTURE_MS


_SHORTEST_SALT = 16
_MOST_COMPACT = 3


class FingerprintSettings(SecretTable):
    """How an item becomes a fingerprint. Any change makes a new scheme, which cannot use the old changelog."""

    family: Literal["minhash", "simhash", "compact", "given"] = "minhash"
    """How bodies are found and compared. minhash: by the Jaccard similarity of their shingles; simhash: by the Hamming
    distance of 64 bits, which takes less memory and finds near-identical bodies only; compact: the same with a quarter
    less memory, within 3 bits; given: by the distance of the record's own fingerprint ([item] fields)."""
    shingles: Literal["words", "letters"] = "words"
    """What is compared in scripts with spaces. words: runs of three words, for articles; letters: runs of five letters,
    for feeds of short posts with typing errors, with decision.novelty = 'eager'. An item without text is then compared
    by the letters of its headline. Scripts without spaces always have runs of five characters."""
    # No layout of the index guarantees more within reasonable memory (fingerprint/simhash.py).
    hamming: int = Field(3, ge=0, le=6)
    """simhash, compact, given: most bits in which the fingerprints of two bodies may differ. Every pair within it is
    found. Up to 3 the index has 10 tables (compact: 4), from 4 on it has 28, and is another scheme."""
    verify: Literal["sketch", "exact"] = "sketch"
    """minhash: how a candidate's body is compared. sketch: by 128 values of four bits, which estimate the Jaccard
    similarity; exact: by all its distinct shingles, about two bytes each, to match another system item by item."""
    salt: SecretStr | None = None
    """Secret that every hash function depends on, at least 16 characters, such as the output of `openssl rand -hex 32`.
    Without it, whoever knows the program can write items that collide. Set it in the environment rather than in the
    file; all members need the same. Unset: the hash functions that are public. With family = 'given' it protects ids
    only: whoever supplies fingerprints chooses which of them are near; a limit of the index bounds what that costs."""
    salt_file: Path | None = None
    """File with the salt, in its place."""

    @model_validator(mode="after")
    def _fits_together(self) -> "FingerprintSettings":
        if self.has_secret("salt") and len(self.secret("salt") or "") < _SHORTEST_SALT:
            raise ValueError(
                f"salt has fewer than {_SHORTEST_SALT} characters, which can be guessed from the scheme id; take the "
                "output of: openssl rand -hex 32"
            )
        if self.family != "minhash" and self.verify == "exact":
            raise ValueError(f"verify = 'exact' needs family = 'minhash'; {self.family!r} is compared by its bits")
        if self.family == "compact" and self.hamming > _MOST_COMPACT:
            raise ValueError(
                f"hamming = {self.hamming} needs family = 'simhash'; 'compact' finds what is within 3 bits"
            )
        return self


NOVELTY_NAMES = {"cautious": 0.25, "balanced": 0.4, "eager": 0.5}
"""The named values of `decision.novelty`."""
NOVELTY_PROMISES = {
    "cautious": "a new sentence is mostly news, and so is a figure or a name in the place of another. "
    "Measured: cautious holds back .03 of the edits with news; readers miss .02 and see .15 again.",
    "balanced": "a new lead, a changed figure, a denial, another story in the same form is news, and mostly a word in "
    "the place of another and a sentence put in; a last sentence may be held back. "
    "Measured: balanced holds back .07 of the edits with news; readers miss .04 and see .10 again.",
    "eager": "as balanced, and what is doubtful is held back. "
    "Measured: eager holds back .12 of the edits with news; readers miss .05 and see .09 again.",
}
"""What each name promises. A test compares the figures with tests/lab/results/figures.json."""


def _parse_novelty(value: Any) -> Any:
    """Return a named novelty as it is, and a number as a float; refuse other names."""
    if isinstance(value, str) and value not in NOVELTY_NAMES:
        try:
            return float(value)
        except ValueError:
            raise ValueError(f"write {', '.join(NOVELTY_NAMES)} or a number from 0 to 1") from None
    return value


class DecisionSettings(Table):
    """The rule: what is held back."""

    novelty: Annotated[Literal["cautious", "balanced", "eager"] | Share, BeforeValidator(_parse_novelty)] = Field(
        "balanced",
        description="Least probability of something new at which an item is let through: a number from 0 to 1, or a "
        "name. `stream-dedup sample` recommends one of the names for your feed. "
        + " ".join(f"{name} ({NOVELTY_NAMES[name]:g}): {promise}" for name, promise in NOVELTY_PROMISES.items()),
    )
    jaccard: Share | None = None
    """Plain deduplication: an item is held back if the Jaccard similarity of its body and another one is at least this,
    such as 0.8. Unset: it is held back if it has nothing new for a reader (`novelty`). With SimHash and given
    fingerprints the Hamming distance decides, whatever is set here."""

    @property
    def threshold(self) -> float:
        """`novelty` as a number."""
        return NOVELTY_NAMES[self.novelty] if isinstance(self.novelty, str) else self.novelty


class PolicySettings(Table):
    """What to do with a verdict."""

    updates: Literal["forward", "drop", "compare"] = "compare"
    """Updates: the same article with something new, or a new version of an id. compare: let through what is new to a
    reader (`decision.novelty`) and hold back the rest; forward: the same, but let through every new version of an id;
    drop: hold back all of them, so that each article passes once."""
    shadow: bool = False
    """Shadow mode, for a trial in production: the output gets every item, with the verdict and the evidence in headers
    where one would be held back. Duplicates, dead letters, index and metrics are unchanged."""


SOURCE_RULES = ("pass", "ignore", "prefer")
"""The rules for sources, each a setting of [sources]."""
_HOST = re.compile(r"[\w-]+(\.[\w-]+)*")


def _sources(value: Any) -> Any:
    """Parse names of sources, in a list or separated by commas, to lower case without "www."."""
    if isinstance(value, str):
        value = value.split(",") if value.strip() else []
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        raise ValueError('write a list of sources, such as ["wire.example", "Elm Valley Wire"]')
    names = [name.strip().lower().removeprefix("www.") for name in value]
    for name, written in zip(names, value, strict=True):
        if not name:
            raise ValueError("one of the sources is empty; leave it out")
        is_host = "." in name and " " not in name
        if "*" in name or "://" in name or (is_host and not _HOST.fullmatch(name)):
            raise ValueError(
                f"{written[:60]!r} is no source; write a host (sport.wire.example), a domain, which covers its hosts "
                "(wire.example), or the name that your records have (Elm Valley Wire), without scheme, path and *"
            )
    return tuple(dict.fromkeys(names))


SourceNames = Annotated[tuple[str, ...], BeforeValidator(_sources)]


# `pass` is a keyword of Python, so no class body can declare it.
_Passes = create_model(
    "_Passes",
    __base__=Table,
    **{
        "pass": (
            SourceNames,
            Field(
                (),
                description="Sources of which nothing is ever held back, such as an agency that you pay for. They are "
                "compared and remembered like others, so copies of their items are held back. In a variable, sources "
                "are separated by commas.",
            ),
        )
    },  # type: ignore[call-overload]  # its keywords are fields
)


class SourceSettings(_Passes):
    """Rules for sources, by host, domain (which covers its hosts) or name, in any case. The most exact one counts."""

    ignore: SourceNames = ()
    """Sources that are let through, and neither compared nor remembered, such as advertisements or your own site."""
    prefer: SourceNames = ()
    """Sources whose version you want: the first of them that copies an item of another source is let through as an
    update of it, once for an article. A copy of a site that had the article itself is held back."""

    @property
    def rules(self) -> dict[str, str]:
        """The rule of each source, by name."""
        return {name: rule for rule in SOURCE_RULES for name in getattr(self, rule)}

    @model_validator(mode="after")
    def _one_rule_each(self) -> "SourceSettings":
        last = self.rules
        for rule in SOURCE_RULES:
            for name in getattr(self, rule):
                if last[name] != rule:
                    raise ValueError(f"{name!r} stands in {rule} and in {last[name]}; leave it in one of them")
        return self


class IndexSettings(Table):
    """Limits of the index."""

    # Copies come within 13 hours, hardly ever after a day. The words of an article of 500 take 1,008 bytes.
    texts: Duration = Field(timedelta(hours=48), gt=timedelta(0))
    """How long the words of an original are kept in order, as hashes, so that an item is compared with it word by word.
    Older originals are compared by their sketches and filters, which miss a replaced word. At most [window] length
    counts. Shorten it to save memory: an article takes a kilobyte."""

    @property
    def texts_ms(self) -> int:
        """`texts` in milliseconds, the unit of event times."""
        return self.texts // timedelta(milliseconds=1)
