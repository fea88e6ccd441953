"""The tables that verdicts depend on: [item], [window], [fingerprint], [decision], [policy], [sources] and [index]."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, create_model, model_validator

from stream_dedup.settings.base import Duration, SecretTable, Share, Table


class ItemSettings(Table):
    """Where a record has the fields of an item."""

    format: Literal["json", "text"] = "json"
    """Format of the record. json: a JSON object, or XML or a CloudEvent that holds one item; text: the value is the
    text and the key is the id."""
    markup: Literal["auto", "none", "html", "page"] = "auto"
    """Markup of title and text. It is removed for the comparison only; the record stays unchanged. auto: remove tags,
    entities and Markdown links where there are any; none: remove nothing; html: parse the text as HTML always; page: as
    auto, and extract the article from a whole page (install the extra `pages`)."""
    preset: Literal[
        "auto", "plain", "webhose", "schema_org", "ninjs", "json_feed", "wordpress", "newsapi", "atom", "rss", "gdelt"
    ] = "auto"
    """Names of the fields. auto: for each record, the preset that finds most fields; plain: id, title, text, source,
    url, published; webhose: Webz.io posts; schema_org: NewsArticle; ninjs: IPTC ninjs; json_feed: JSON Feed; wordpress:
    its REST API; newsapi: NewsAPI and similar; atom: Atom, feedparser; rss: RSS items; gdelt: GDELT article lists.
    docs/feeds.md lists the names."""
    fields: dict[Literal["id", "title", "text", "source", "url", "published"], str] = Field(default_factory=dict)
    """Fields that differ from the preset: our name = dotted path in the JSON object, such as title = 'head.line', or
    the name of a column. 'a|b' reads b where a is missing or empty."""
    query: str | None = Field(None, min_length=1)
    """Where the items are in documents and records of a shape that is not known, and their fields, in JMESPath
    (https://jmespath.org): 'data.items' or 'data.items[].{id: url, title: head.main, text: body[].p}'. A list of texts
    is joined. '@' reads a record as one item, whatever lists it has. `check --query` tries one."""
    time: Literal["record", "published"] = "record"
    """On Kafka, what an item's time is. record: the record's timestamp; published: the item's own date, as in files,
    for a backfill, or where producers send late. All members of a group need the same."""
    fingerprint: str | None = Field(None, min_length=1)
    """Dotted path of a 64-bit fingerprint in the record (a perceptual hash of an image, a SimHash of another system): a
    whole number or 16 hex digits. It replaces headline and text, which are not read. Requires [fingerprint] family =
    'given'."""

    @model_validator(mode="before")
    @classmethod
    def _has_no_list(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(path := values.get("list"), str):
            names = (name if re.fullmatch(r"[A-Za-z_]\w*", name, re.A) else f'"{name}"' for name in path.split("."))
            replacement = ".".join(names)
            raise ValueError(f"list was replaced by query: write query = '{replacement}'")
        return values

    @model_validator(mode="after")
    def _has_dates(self) -> "ItemSettings":
        if self.format == "text" and self.time == "published":
            raise ValueError("time = 'published' needs format = 'json': a plain text has no date")
        return self


class WindowSettings(Table):
    """How long, and how many, originals are remembered."""

    length: Duration = Field(timedelta(days=7), gt=timedelta(0))
    """How long an original is remembered. Most copies come within hours; a week covers weekend round-ups and late
    archives."""
    future: Duration = Field(timedelta(hours=1), ge=timedelta(0))
    """How far an item's time may be ahead of the clock. Beyond it the time is ignored, and the item gets the current
    time of its partition. Raise it for feeds with announced articles."""
    max_originals: int | None = Field(None, ge=20_000, le=2**31)
    """Most originals remembered by each task. Beyond it the first to arrive are forgotten, whatever their time, so that
    memory stays bounded even where timestamps do not advance. All members of a group must have the same value. Unset:
    what [worker] memory has room for."""

    @property
    def length_ms(self) -> int:
        """`length` in milliseconds, the unit of event times."""
        return self.length // timedelta(milliseconds=1)

    def latest(self, now: int) -> int:
        """Return the latest event time that is accepted when the clock shows `now`, both in ms."""
        return now + self.future // timedelta(milliseconds=1)


_SHORTEST_SALT = 16
MOST_BANDS = 1024
"""Of a view. Counters and formats allow more, but a band costs each original some nine bytes and each lookup a cache
miss, and layouts in use have at most 450 bands (of 20 rows, Lee et al. 2022)."""
# Bands times rows of a view. More functions only cost time: a body of 400 words takes .3 ms with 16,384 of them, and
# .2 ms with 9,000, the most in use.
_MOST_FUNCTIONS = 16_384
# One band of all functions of a sketch, as others use for a threshold near 1.
_MOST_ROWS = 512


class FingerprintSettings(SecretTable):
    """How an item becomes a fingerprint. Any change makes a new scheme, which cannot use the old changelog."""

    # Others use up to 13 words and 24 characters. Any number works; far longer ones find only whole texts.
    shingle_words: int = Field(3, ge=1, le=32)
    """Words in a shingle, in scripts with spaces."""
    shingle_letters: int = Field(0, ge=0, le=64)
    """Letters in a shingle, in scripts with spaces, in place of words, from 2; 0: words. For feeds of short posts with
    typing errors: 4 or 5, with decision.novelty = 0.5. An item without text is then compared by the letters of its
    headline."""
    shingle_characters: int = Field(5, ge=1, le=64)
    """Characters in a shingle, in scripts without spaces (Chinese, Japanese, Thai)."""
    chinese: Literal["characters", "words"] = "characters"
    """Tokens of Chinese. characters: no segmenter is needed, and verdicts agree with readers as well; words: those of
    jieba (extra `chinese`), in shingles of shingle_words, to match a system that has them."""
    family: Literal["minhash", "simhash", "given"] = "minhash"
    """How bodies are found and compared. minhash: by the Jaccard similarity of their shingles; simhash: by the Hamming
    distance of 64 or 128 bits, which takes less memory and finds near-identical bodies only; given: by the distance of
    the record's own fingerprint ([item] fingerprint)."""
    # No layout that is allowed guarantees more than 16 bits.
    hamming: int = Field(3, ge=0, le=32)
    """simhash, given: most bits in which the fingerprints of two bodies may differ."""
    layout: str = "5 choose 2"
    """simhash, given: tables of the index. 'm choose r': a table for each choice of r of m blocks of bits; finds every
    pair within m - r bits. 'm x n': a table for each of m blocks with each of n parts of the remaining bits; finds
    every pair within min(m, n) - 1 bits. For example 4 choose 1 (4 tables, 3 bits), 4 x 4 (16, 3), 5 choose 2 (10, 3),
    6 choose 3 (20, 3), 8 choose 2 (28, 6)."""
    bits: Literal[64, 128] = 64
    """simhash: bits of a fingerprint."""
    features: Literal["shingles", "tokens"] = "shingles"
    """simhash: the features that vote: shingles, or single words (in scripts without spaces, characters)."""
    weights: Literal["uniform", "tf", "idf"] = "tf"
    """simhash: weight of a feature's vote. uniform: 1; tf: how often it occurs; idf: how often it occurs, times its
    rarity in the table `idf`."""
    idf: Path | None = None
    """simhash: file of feature rarities, written by `stream-dedup weights build`."""
    verify: Literal["sketch", "exact"] = "sketch"
    """minhash: how a candidate's body is compared. sketch: by body_bins bins, which estimate the Jaccard similarity;
    exact: by all its distinct shingles, about two bytes each."""
    # 4,096 bins err by .008 at most; verify = "exact" does not err, and takes less memory from 1,000 shingles down.
    body_bins: int = Field(128, ge=64, le=4096)
    """Bins of the body's sketch: a power of two, half a byte each. Unused with verify = 'exact'."""
    # Each takes nine bytes an original. 10 find .85 to .98 of the contained pairs, 16 .90 to .99, 24 .95 to 1.
    anchors: int = Field(16, ge=0, le=64)
    """minhash: keys of a body, the smallest hashes of its shingles of eight words. They find what holds part of another
    text, and every pair with a Jaccard similarity of .5 or more. 0: body_bands alone."""
    body_bands: int = Field(0, ge=0, le=MOST_BANDS)
    """minhash: bands of the body, beside or in place of anchors, for a chosen S-curve: 16 bands of 4 rows find half of
    the pairs at a Jaccard similarity of .5. Each takes nine bytes an original and a cache miss a lookup; bands times
    rows may be up to 16,384, which take .3 ms an article."""
    body_rows: int = Field(4, ge=1, le=_MOST_ROWS)
    """Rows per band. More rows give fewer false candidates."""
    salt: SecretStr | None = None
    """Secret that every hash function depends on, at least 16 characters, such as the output of `openssl rand -hex 32`.
    Without it, whoever knows the program can write items that collide. Set it in the environment rather than in the
    file; all members need the same. Unset: the hash functions that are public. With family = 'given' it protects ids
    only: whoever supplies fingerprints chooses which of them are near, and [index] bucket_limit bounds what that
    costs."""
    salt_file: Path | None = None
    """File with the salt, in its place."""

    @model_validator(mode="after")
    def _fits_together(self) -> "FingerprintSettings":
        default_words = FingerprintSettings.model_fields["shingle_words"].default
        functions = self.body_bands * self.body_rows
        if self.has_secret("salt") and len(self.secret("salt") or "") < _SHORTEST_SALT:
            problem = (
                f"salt has fewer than {_SHORTEST_SALT} characters, which can be guessed from the scheme id; take the "
                "output of: openssl rand -hex 32"
            )
        elif self.shingle_letters == 1:
            problem = "shingle_letters = 1 is the alphabet, which all texts share; set 3 to 8, or 0 for words"
        elif self.shingle_letters and self.shingle_words != default_words:
            problem = (
                f"shingle_words = {self.shingle_words} has no effect with shingle_letters = {self.shingle_letters}; "
                "leave one of them out"
            )
        elif self.body_bins & (self.body_bins - 1):
            problem = f"body_bins must be a power of two (64, 128, 256, ...), not {self.body_bins}"
        elif functions > _MOST_FUNCTIONS:
            problem = (
                f"bands times rows is {functions:,} hash functions for each shingle; at most {_MOST_FUNCTIONS:,} are "
                "allowed"
            )
        elif self.family != "minhash" and self.verify == "exact":
            problem = f"verify = 'exact' needs family = 'minhash'; {self.family!r} is compared by its bits"
        elif self.family == "minhash" and not self.anchors and not self.body_bands:
            problem = "anchors = 0 and body_bands = 0 leave no key for the body; set one of them"
        elif self.family == "simhash" and self.weights == "idf" and self.idf is None:
            problem = "weights = 'idf' needs idf = 'FILE', a table made by `stream-dedup weights build`"
        elif self.family == "given" and self.bits != 64:
            problem = "family = 'given' has fingerprints of 64 bits; leave bits at 64"
        else:
            return self
        raise ValueError(problem)


NOVELTY_NAMES = {"cautious": 0.28, "balanced": 0.35, "eager": 0.5}
"""The named values of `decision.novelty`."""
NOVELTY_PROMISES = {
    "cautious": "a new sentence is mostly news, and so is a figure or a name in the place of another. "
    "Measured: cautious holds back .05 of the edits with news; readers miss .06 and see .16 again.",
    "balanced": "a new lead, a changed figure, a denial, another story in the same form is news, and mostly a word in "
    "the place of another; one sentence that is added may be held back. "
    "Measured: balanced holds back .10 of the edits with news; readers miss .09 and see .12 again.",
    "eager": "as balanced, and what is doubtful is held back. "
    "Measured: eager holds back .16 of the edits with news; readers miss .10 and see .11 again.",
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


def name_of(novelty: float) -> str:
    """Return the name of a value of `decision.novelty`; "" without one."""
    return next((name for name, number in NOVELTY_NAMES.items() if number == novelty), "")


def with_name(novelty: float) -> str:
    """Return a value of `decision.novelty`, with its name if it has one.

    >>> with_name(0.4), with_name(0.45)
    ('0.4 balanced', '0.45')
    """
    return f"{novelty:g} {name_of(novelty)}".rstrip()


class DecisionSettings(Table):
    """The rule: what is held back."""

    rule: Literal["novelty", "jaccard"] = "novelty"
    """novelty: an item is held back if it has nothing new for a reader of an earlier one; jaccard: if the Jaccard
    similarity of the bodies is at least `body`, as in plain deduplication. With SimHash and given fingerprints the
    Hamming distance decides, whatever is set here."""
    novelty: Annotated[Literal["cautious", "balanced", "eager"] | Share, BeforeValidator(_parse_novelty)] = Field(
        "balanced",
        description="Least probability of something new at which an item is let through: a number from 0 to 1, or a "
        "name. `stream-dedup sample` recommends one of the names for your feed. "
        + " ".join(f"{name} ({NOVELTY_NAMES[name]:g}): {promise}" for name, promise in NOVELTY_PROMISES.items()),
    )
    body: Share = 0.5
    """jaccard: least Jaccard similarity of two bodies that are the same."""

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

    # With 64, items of one template took 92 µs each instead of 58, and on the labelled streams .077 instead of .075 of
    # the items with nothing new were let through.
    bucket_limit: int = Field(24, ge=1, le=100_000)
    """Newest originals looked up per key, so that templates with thousands of items stay cheap. Of all originals found,
    the 12 that share the rarest keys with an item are compared with it."""
    # Copies come within 13 hours, hardly ever after a day. The words of an article of 500 take 1,008 bytes.
    texts: Duration = Field(timedelta(hours=48), gt=timedelta(0))
    """How long the words of an original are kept in order, as hashes, so that an item is compared with it word by word.
    Older originals are compared by their sketches and filters, which miss a replaced word. At most [window] length
    counts."""

    @property
    def texts_ms(self) -> int:
        """`texts` in milliseconds, the unit of event times."""
        return self.texts // timedelta(milliseconds=1)
