"""Every setting, typed, with its default and its reason: TOML file + environment -> `Settings`.

The environment wins over the file: `STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS=host:9092` sets
`bootstrap_servers` of the table `[kafka]`. The field descriptions are the generated reference
(`stream-dedup config reference`), so they are written for the person who runs the container.
Secrets are `SecretStr`: they print as stars in every log, page and error.
"""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from stream_dedup.errors import ConfigError

PREFIX = "STREAM_DEDUP_"
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(value: Any) -> Any:
    """'7d', '36h', '90s', '250ms' -> timedelta; everything else is left to pydantic.

    >>> parse_duration("36h")
    datetime.timedelta(days=1, seconds=43200)
    """
    if isinstance(value, str):
        text = value.strip()
        for unit, seconds in _UNITS.items():
            number = text.removesuffix(unit).strip()
            if number != text and number.isascii() and number.replace(".", "", 1).isdecimal():
                try:
                    return timedelta(seconds=float(number) * seconds)
                except OverflowError:
                    raise ValueError("this is longer than any calendar; a window is counted in days") from None
    if isinstance(value, str | int | float):  # a bare number would have to guess its unit
        raise ValueError("write a duration as a number and a unit: 250ms, 30s, 15m, 36h, 7d")
    return value


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Share = Annotated[float, Field(ge=0, le=1)]


class _Table(BaseModel):
    """A table of the TOML file; an unknown name in it is an error, not silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class KafkaSettings(_Table):
    """How to reach the cluster."""

    bootstrap_servers: str = Field("127.0.0.1:9092", description="Comma-separated HOST:PORT list.")
    group_id: str = Field(
        "stream-dedup",
        min_length=1,
        description="Consumer group; also the base of the transactional id, so one group is one deduplicator.",
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="As in every Kafka client."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="Needed with a SASL_ protocol."
    )
    sasl_username: str | None = Field(None, description="User of the SASL mechanism.")
    sasl_password: SecretStr | None = Field(
        None, description="Password of the SASL mechanism; better given in the environment than in the file."
    )
    ssl_cafile: Path | None = Field(None, description="PEM file of the authority that signed the brokers.")
    ssl_certfile: Path | None = Field(None, description="PEM file of the client's certificate.")
    ssl_keyfile: Path | None = Field(None, description="PEM file of the client's key.")
    client: Literal["patched", "public"] = Field(
        "patched",
        description="How kafka-python is used. patched: whole batches are packed and unpacked by our own code, which "
        "reaches into the client and works with one version of it alone; public: its public calls alone, with any "
        "version; the same results with more processor time. What is lost: docs/architecture.md.",
    )

    @model_validator(mode="after")
    def _sasl_is_complete(self) -> "KafkaSettings":
        if self.security_protocol.startswith("SASL") and not (
            self.sasl_mechanism and self.sasl_username and self.sasl_password
        ):
            raise ValueError(
                f"security_protocol = {self.security_protocol} needs sasl_mechanism, sasl_username and sasl_password"
            )
        return self

    @model_validator(mode="after")
    def _sasl_is_used(self) -> "KafkaSettings":
        """Whoever gives a password believes that the connection asks for it."""
        given = [name for name in ("sasl_mechanism", "sasl_username", "sasl_password") if getattr(self, name)]
        if given and not self.security_protocol.startswith("SASL"):
            raise ValueError(
                f"{', '.join(given)} would not be used: security_protocol = {self.security_protocol} logs nobody "
                "in; set security_protocol to SASL_SSL (or SASL_PLAINTEXT, without encryption)"
            )
        return self


class TopicSettings(_Table):
    """The five topics."""

    input: str = Field("news.raw", min_length=1, description="Read from here.")
    output: str = Field("news.unique", min_length=1, description="What is not a near-duplicate, bytes untouched.")
    duplicates: str = Field(
        "news.duplicates", min_length=1, description="What was held back, with the evidence in headers."
    )
    dead_letters: str = Field(
        "news.dead-letters", min_length=1, description="What could not be judged, with the reason in headers."
    )
    changelog: str = Field(
        "news.dedup-changelog",
        min_length=1,
        description="What the index must remember; delete policy, retention at least window + margin.",
    )

    @model_validator(mode="after")
    def _are_distinct(self) -> "TopicSettings":
        names = [self.input, self.output, self.duplicates, self.dead_letters, self.changelog]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"each topic needs its own name; used twice: {', '.join(twice)}")
        return self


class ItemSettings(_Table):
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


class WindowSettings(_Table):
    """How long an original is remembered."""

    length: Duration = Field(
        timedelta(days=7),
        gt=timedelta(0),
        description="Copies come within hours; a week covers weekend round-ups and late archives.",
    )
    future: Duration = Field(
        timedelta(hours=1),
        ge=timedelta(0),
        description="A record's timestamp further ahead of the clock than this says nothing: the item counts as of the "
        "usual time of its partition just then.",
    )
    # At 628 bytes an original 12 GiB: no memory that deploy/README.md sizes, and less than a mistake can fill.
    max_originals: int = Field(
        20_000_000,
        ge=20_000,
        le=2**31,
        description="Most originals remembered (variants count), by each task. Beyond it those that came first are "
        "forgotten, whatever their time: so memory stays bounded where times do not advance. All members of a group "
        "must have the same.",
    )

    @property
    def length_ms(self) -> int:
        """The length in the unit of event times."""
        return self.length // timedelta(milliseconds=1)

    def latest(self, now: int) -> int:
        """The latest event time that counts when a clock says `now`, both in ms: one further ahead is no date."""
        return now + self.future // timedelta(milliseconds=1)


class DecisionSettings(_Table):
    """The rule: which similarities make the same article."""

    rule: Literal["views", "jaccard"] = Field(
        "views",
        description="views: headline, lead and body decide, and the guard has the last word; "
        "jaccard: the bodies' Jaccard (with a SimHash their distance) alone decides, as in plain deduplication, "
        "without a guard.",
    )
    body: Share = Field(
        0.5, description="Jaccard of the bodies' shingles from which an item of another source is a copy."
    )
    lead: Share = Field(
        0.55, description="Share of the smaller lead's shingles found in the other lead from which it is a copy."
    )
    headline: Share = Field(0.5, description="Jaccard of the headlines from which it is a copy, given kinship.")
    kinship: Share = Field(
        0.45, description="Share of the smaller body in the other that like headlines need to count."
    )
    headline_alone: Share = Field(
        0.8, description="Jaccard of the headlines from which it is a copy where one item has no text."
    )
    other_headline: Share = Field(
        0.5, description="Guard: the same source with a headline Jaccard below this is another article."
    )
    novelty: Share = Field(
        0.45,
        description="Novelty from which the same article is let through as an update; below it is held back. Higher: "
        "readers see less twice, and miss more.",
    )
    cosmetic: Share = Field(
        0.9, description="Same id: Jaccard of body and headline from which a new version is a mere touch-up."
    )


class FingerprintSettings(_Table):
    """How an item becomes a fingerprint. A change makes another scheme: the old changelog no longer fits."""

    shingle_words: int = Field(3, ge=1, le=8, description="Words in a shingle of a script with spaces.")
    shingle_characters: int = Field(
        5, ge=1, le=12, description="Characters in a shingle of a script without spaces (Chinese, Japanese, Thai)."
    )
    family: Literal["minhash", "simhash", "given"] = Field(
        "minhash",
        description="How bodies are found and compared. minhash: by the Jaccard of their shingles; simhash: by the "
        "Hamming distance of 64 or 128 bits, smaller and only for near-identical bodies; headline and lead are judged "
        "alike in both. given: by the fingerprint that an item brings along ([item] fingerprint), and by nothing else.",
    )
    hamming: int = Field(
        3, ge=0, le=32, description="simhash, given: bits in which two bodies' fingerprints may differ."
    )
    layout: str = Field(
        "5 choose 2",
        description="simhash, given: tables of the index. 'm choose r': one for each choice of r out of m blocks of "
        "bits, finds everything within m - r bits; 'm x n': one for each of m blocks with each of n parts of the rest, "
        "finds everything within the smaller less 1. E.g. 4 choose 1 (4 tables, 3 bits), 4 x 4 (16, 3), "
        "5 choose 2 (10, 3), 6 choose 3 (20, 3), 8 choose 2 (28, 6).",
    )
    bits: Literal[64, 128] = Field(64, description="simhash: bits of a fingerprint.")
    features: Literal["shingles", "tokens"] = Field(
        "shingles", description="simhash: what votes: shingles, or single words (characters in scripts without spaces)."
    )
    weights: Literal["uniform", "tf", "idf"] = Field(
        "tf",
        description="simhash: how much a feature's vote counts. uniform: 1; tf: how often it occurs; idf: that times "
        "its rarity by the table in `idf`.",
    )
    idf: Path | None = Field(None, description="simhash: table of rarities, written by `stream-dedup weights build`.")
    verify: Literal["sketch", "exact"] = Field(
        "sketch",
        description="minhash: what a candidate's body is compared by. sketch: body_bins, which estimate the Jaccard; "
        "exact: all its distinct shingles, in about two bytes each, which tell it.",
    )
    views: Literal["all", "body"] = Field(
        "all",
        description="What is kept of an item's text. all: headline, lead and body; body: the body alone, for a "
        "fraction of the memory: with simhash and '4 choose 1' 160 bytes an original. Then nothing but the body "
        "decides, without guards, an item without text is bad, and cuts and copies in page boilerplate are missed.",
    )
    lead_words: int = Field(80, ge=10, le=400, description="Length of the lead in words (or two characters each).")
    body_bins: int = Field(
        256,
        ge=64,
        le=4096,
        description="Bins of the body's sketch, a power of two; half as many bytes an original. Unused where "
        "verify = 'exact'.",
    )
    body_bands: int = Field(16, ge=1, le=64, description="Bands of the body's MinHash; more finds less alike items.")
    body_rows: int = Field(4, ge=1, le=16, description="Rows a band; more means fewer false candidates.")
    lead_bands: int = Field(8, ge=1, le=64, description="Bands of the lead's MinHash.")
    lead_rows: int = Field(2, ge=1, le=16, description="Rows a lead band.")
    headline_bands: int = Field(4, ge=1, le=64, description="Bands of the headline's MinHash.")
    headline_rows: int = Field(3, ge=1, le=16, description="Rows a headline band.")
    seed: int = Field(1, ge=0, lt=2**32, description="Seed of every hash function.")

    @model_validator(mode="after")
    def _bins_are_a_power_of_two(self) -> "FingerprintSettings":
        if self.body_bins & (self.body_bins - 1):
            raise ValueError(f"body_bins must be a power of two (64, 128, 256, ...), not {self.body_bins}")
        return self

    @model_validator(mode="after")
    def _only_minhash_is_verified(self) -> "FingerprintSettings":
        if self.verify == "exact" and self.family != "minhash":
            raise ValueError(f"verify = 'exact' goes with family = 'minhash'; {self.family!r} is compared by its bits")
        return self

    @model_validator(mode="after")
    def _idf_has_its_table(self) -> "FingerprintSettings":
        if self.family == "simhash" and self.weights == "idf" and self.idf is None:
            raise ValueError("weights = 'idf' needs idf = 'FILE', a table made by `stream-dedup weights build`")
        if self.family == "given" and self.bits != 64:
            raise ValueError("family = 'given' takes fingerprints of 64 bits; leave bits at 64")
        return self


class PolicySettings(_Table):
    """What happens with a verdict."""

    updates: Literal["forward", "drop", "compare"] = Field(
        "compare",
        description="The same article with something new, and a new version of an id. compare: let through what is "
        "new to a reader (`decision.novelty`), hold back what is not; forward: the same, and new versions of an id "
        "always; drop: hold all of them back, so that each article passes once.",
    )
    variants: bool = Field(
        True,
        description="Remember of a held-back item what its original lacks: a copy that was cut or re-headlined "
        "leads to further copies. They lead to the same original, and are forgotten with it.",
    )
    shadow: bool = Field(
        False,
        description="Shadow mode, to try it out: everything goes to the output, too, what would be held back with its "
        "verdict and evidence in headers. Duplicates, dead letters, memory and metrics are as without it.",
    )


class IndexSettings(_Table):
    """The hybrid index."""

    # The tree's filter takes 8 bytes an entry: 256 KB at 30 tables, which stays in the second cache. Measured, one row
    # at a time: adding costs 30 µs a row with 256, 31 with 1024, 41 with 4096.
    recent_limit: int = Field(
        1024, ge=16, le=1_000_000, description="Entries of the recent tree before it is merged into sorted tables."
    )
    # With 64 a form of which little changes took 92 µs an item instead of 58, and on the labelled streams .077 and not
    # .075 of what brings nothing new came through.
    bucket_limit: int = Field(
        24,
        ge=1,
        le=100_000,
        description="Newest originals looked at per key, so that a template of thousands stays cheap. Of all that are "
        "found so, the 24 that share most keys with an item are compared with it.",
    )


class WorkerSettings(_Table):
    """The loop on Kafka."""

    scope: Literal["global", "partition"] = Field(
        "global",
        description="global: one active member on all partitions, the others stand by; "
        "partition: each partition has its own index, members share the partitions.",
    )
    # A transaction's own cost, some 45 ms of round trips, is shared by its records. Of a backlog of 40,000 articles, in
    # turns, µs an item: 119 by 1,000, 96 by 2,000, 101 by 3,000.
    batch_items: int = Field(
        2000, ge=1, le=20_000, description="Most records in one transaction; a trickle makes small ones by itself."
    )
    batch_bytes: int = Field(
        32 * 2**20, ge=2**16, description="Most bytes in flight in one transaction (the client itself has no bound)."
    )
    transaction_timeout: Duration = Field(
        timedelta(seconds=30),
        ge=timedelta(seconds=5),
        description="The broker aborts a dead member's transaction after this; also our bound for one commit.",
    )
    session_timeout: Duration = Field(
        timedelta(seconds=10),
        ge=timedelta(seconds=1),
        description="A member silent for this long loses its partitions; the take-over starts then.",
    )
    max_record_bytes: int = Field(
        32 * 2**20, ge=2**16, description="Largest record that is produced; at least the brokers' message.max.bytes."
    )
    changelog_margin: Duration = Field(
        timedelta(days=1),
        description="The changelog's retention must reach this much beyond the window and the input topic's retention.",
    )


class ObserveSettings(_Table):
    """Status page, metrics and health on HTTP."""

    enabled: bool = Field(True, description="Serve the status page, /metrics and /healthz.")
    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 in a container.")
    port: int = Field(9464, ge=0, le=65535, description="Port; 0 takes a free one and logs it.")
    recent_items: int = Field(
        10_000,
        ge=0,
        le=1_000_000,
        description="Items that the status page remembers, with verdict, headline and the first 1,500 characters, to "
        "show copies beside their originals and to answer a search; at most 2.7 kB each. 0: none, no text is shown.",
    )
    memory_limit: int | None = Field(
        None,
        ge=2**20,
        description="Bytes this process may take: shown as a metric that an alert compares with what it takes, it "
        "limits nothing. Unset: the container's limit, or the machine's memory.",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto",
        description="How `run` writes its log to stderr. json: an object a line; text: for people; auto: text on a "
        "terminal, json elsewhere.",
    )


class _Environment(EnvSettingsSource):
    """The environment, whatever the order of its variables.

    In the library a table's variable that comes after one of its entries' replaces them: ITEM__FIELDS would win over
    ITEM__FIELDS__TITLE or not, as the container's runtime pleases.
    """

    def explode_env_vars(self, field_name: str, field: FieldInfo, env_vars: Mapping[str, str | None]) -> dict[str, Any]:
        return super().explode_env_vars(field_name, field, dict(sorted(env_vars.items())))


class Settings(BaseSettings):
    """All settings. `load_settings` is the way to get one."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    kafka: KafkaSettings = KafkaSettings()
    topics: TopicSettings = TopicSettings()
    item: ItemSettings = ItemSettings()
    window: WindowSettings = WindowSettings()
    fingerprint: FingerprintSettings = FingerprintSettings()
    decision: DecisionSettings = DecisionSettings()
    policy: PolicySettings = PolicySettings()
    index: IndexSettings = IndexSettings()
    worker: WorkerSettings = WorkerSettings()
    observe: ObserveSettings = ObserveSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The environment wins over the file, which arrives as init arguments.
        return _Environment(settings_cls), init_settings


def load_settings(path: str | Path | None = None, **overrides: dict[str, Any]) -> Settings:
    """Settings of a TOML file (or the defaults), the environment on top, and on top of all `overrides`, tables in code.

    Raises ConfigError naming the file or variable, the setting, what is wrong and what would be right.

    >>> load_settings(window={"length": "36h"}).window.length.total_seconds() / 3600
    36.0
    """
    tables: dict[str, Any] = {}
    path = Path(path) if path is not None else None
    if path is not None:
        try:
            tables = tomllib.loads(path.read_text("utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot read the settings file {path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise ConfigError(f"cannot read the settings file {path}: {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path} is not valid TOML: {error}") from None
    unknown = [name for name in os.environ if name.upper().startswith(PREFIX) and not _is_setting(name)]
    if unknown:
        known = [_variable(table, name) for table, field in Settings.model_fields.items() for name in _names(field)]
        alike = [two for one in sorted(unknown) for two in get_close_matches(one.upper(), known, n=1, cutoff=0.8)]
        hint = f" (did you mean {', '.join(alike)}?)" if alike else ""
        raise ConfigError(
            f"unknown setting in the environment: {', '.join(sorted(unknown))}{hint}; "
            f"the form is {PREFIX}TABLE__NAME, see `stream-dedup config reference`"
        )
    try:
        return _fitting(_with(Settings(**tables), overrides))
    except ValidationError as error:
        raise ConfigError(_explain(error, path)) from None
    except SettingsError as error:  # its text names the table and has no value
        raise ConfigError(_no_json() or f"settings in the environment cannot be read: {error}") from None


def _with(settings: Settings, overrides: dict[str, dict[str, Any]]) -> Settings:
    tables: dict[str, BaseModel] = {}
    for name, table in overrides.items():
        if name not in Settings.model_fields:
            raise ConfigError(f"[{name}]: {_no_such([name])}")
        before = getattr(settings, name)
        try:
            tables[name] = type(before).model_validate(before.model_dump() | table)
        except ValidationError as error:
            raise ConfigError(_explain(error, None, (name,))) from None
    return settings.model_copy(update=tables)


def _fitting(settings: Settings) -> Settings:
    if (settings.item.fingerprint is None) == (settings.fingerprint.family == "given"):
        raise ConfigError(
            "[item] fingerprint and [fingerprint] family = 'given' belong together: the one names the field, the other "
            "has it compared; set both or neither"
        )
    return settings


def _is_setting(variable: str) -> bool:
    parts = variable[len(PREFIX) :].lower().split("__")
    table = Settings.model_fields.get(parts[0])
    if table is None:
        return False
    if len(parts) == 1:
        return True
    field = table.default.__class__.model_fields.get(parts[1])
    # Only a setting that is itself a table has a third part; elsewhere the variable would be ignored.
    return field is not None and (len(parts) == 2 or get_origin(field.annotation) is dict)


def _no_json() -> str:
    """Which variable holds no JSON, although it stands for a whole table; never its value, which may be secret."""
    for name, value in sorted(os.environ.items()):
        parts = name.upper().removeprefix(PREFIX).split("__")
        if name.upper().startswith(PREFIX) and len(parts) <= _table_depth(parts[0].lower(), parts[1:]):
            try:
                json.loads(value)
            except ValueError:
                return (
                    f"{name} stands for a whole table and must be JSON, such as "
                    f'\'{{"NAME": "value"}}\'; or set its entries one by one: {name}__NAME=value'
                )
    return ""


def _table_depth(table: str, rest: Sequence[str]) -> int:
    """How many parts of a variable's name stand for a table."""
    field = Settings.model_fields[table].default.__class__.model_fields.get(rest[0].lower()) if rest else None
    return 2 if field is not None and get_origin(field.annotation) is dict else 1


def _variable(*parts: str) -> str:
    return PREFIX + "__".join(parts).upper()


def _names(table: FieldInfo) -> list[str]:
    return list(type(table.default).model_fields)


def _no_such(parts: Sequence[str]) -> str:
    """
    >>> _no_such(["kafka", "bootstrap_server"])
    'there is no such setting (did you mean [kafka] bootstrap_servers?); see `stream-dedup config reference`'
    >>> _no_such(["input"])
    'there is no such setting (did you mean [topics] input?); see `stream-dedup config reference`'
    """
    tables = {name: _names(field) for name, field in Settings.model_fields.items()}
    if len(parts) == 1:
        alike = [f"[{one}]" for one in get_close_matches(parts[0].lower(), tables, n=1)]
        alike += [f"[{table}] {parts[0]}" for table, names in tables.items() if parts[0] in names]
    else:
        alike = [f"[{parts[0]}] {one}" for one in get_close_matches(parts[-1].lower(), tables.get(parts[0], []), n=1)]
        alike += [f"[{table}] {parts[-1]}" for table, names in tables.items() if parts[-1] in names]
    hint = f" (did you mean {' or '.join(alike)}?)" if alike else ""
    return f"there is no such setting{hint}; see `stream-dedup config reference`"


def _explain(error: ValidationError, path: Path | None, within: tuple[str, ...] = ()) -> str:
    """One line a problem, without pydantic's vocabulary and without the value of a secret."""
    lines = []
    for problem in error.errors(include_url=False, include_input=False):
        parts = [*within, *(str(part) for part in problem["loc"] if part != "[key]")]
        name = "[" + parts[0] + "]" + (" " + ".".join(parts[1:]) if parts[1:] else "") if parts else "settings"
        message = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        if problem["type"] == "extra_forbidden":
            message = _no_such(parts)
        elif parts[:2] == ["item", "fields"] and problem["type"] == "literal_error":
            message += ' (ours is on the left, yours on the right, such as title = "head.line")'
        elif problem["type"] == "dict_type":
            message = 'must be a table, such as { name = "value" }'
        elif problem["type"] == "model_type":
            message = f"this is a table: write [{parts[0]}] and its settings below it"
        variable = _variable(*parts)
        origin = f" (from {variable})" if variable in os.environ else ""
        lines.append(f"{name}: {message}{origin}")
    return f"settings{f' in {path}' if path else ''} are not usable:\n  " + "\n  ".join(lines)
