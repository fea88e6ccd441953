"""The tables of programs that run for long: [kafka], [topics], [registry], [worker], [observe] and [feeds]."""

import re
from datetime import timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from stream_dedup.settings.base import Duration, SecretTable, Size, Table
from stream_dedup.settings.memory import available, batch_bytes, record_bytes, sized, work_bytes

_OAUTH = "OAUTHBEARER"
# An IPv6 address stands in brackets.
_HOST_PORT = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.%\w]+\])(:\w+)?")
_LISTENER = re.compile(r"\s*(\w+://)")
# What Kafka takes as the name of a topic.
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class KafkaSettings(SecretTable):
    """The connection to the cluster, and the consumer group."""

    bootstrap_servers: str = "127.0.0.1:9092"
    """Comma-separated HOST:PORT list."""
    group_id: str = Field("stream-dedup", min_length=1)
    """Consumer group, and prefix of the transactional ids: the members of a group form one deduplicator. A second
    deduplicator on the cluster needs another one."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How to connect, as in every Kafka client."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    """SASL mechanism. Required with SASL_PLAINTEXT and SASL_SSL."""
    sasl_username: str | None = None
    """SASL user. Not with OAUTHBEARER, whose token names it."""
    sasl_password: SecretStr | None = None
    """SASL password. Set it in the environment, or by sasl_password_file: then a rotation needs no restart, and a
    worker whose login is refused waits for a new file."""
    sasl_password_file: Path | None = None
    """File with the SASL password."""
    sasl_oauth_token: SecretStr | None = None
    """Bearer token for OAUTHBEARER. It expires, so better by sasl_oauth_token_file, such as a projected service account
    token: that is read again at each login and each renewal of one."""
    sasl_oauth_token_file: Path | None = None
    """File with the bearer token."""
    ssl_cafile: Path | None = None
    """PEM file of the CAs that sign the brokers' certificates. Unset: those of the operating system."""
    ssl_certfile: Path | None = None
    """PEM file of the client's certificate, and of its chain; for mutual TLS."""
    ssl_keyfile: Path | None = None
    """PEM file of the client's private key. Unset: it is in ssl_certfile."""
    ssl_key_password: SecretStr | None = None
    """Password of an encrypted private key."""
    ssl_key_password_file: Path | None = None
    """File with the password of the private key."""

    @property
    def login_is_in_file(self) -> bool:
        """Whether the secret of the login may be replaced while a process runs."""
        return bool(self.sasl_password_file or self.sasl_oauth_token_file)

    @property
    def uses_sasl(self) -> bool:
        """Whether the connection logs in."""
        return self.security_protocol.startswith("SASL")

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.security_protocol.endswith("SSL")

    @field_validator("bootstrap_servers", mode="before")
    @classmethod
    def _only_addresses(cls, value: Any) -> Any:
        """Refuse a value that may contain a password; messages, logs and pages show addresses."""
        if isinstance(value, list):
            raise ValueError("must be one text with commas, not a list: bootstrap_servers = 'HOST:PORT,HOST:PORT'")
        if not isinstance(value, str):
            return value
        listeners = [found[1] for address in value.split(",") if (found := _LISTENER.match(address))]
        if listeners and "@" not in value:
            raise ValueError(
                f"must be addresses HOST:PORT without {listeners[0]}, which belongs to a broker's listeners; set "
                "security_protocol to the protocol of that listener"
            )
        if not all(_HOST_PORT.fullmatch(address.strip()) for address in value.split(",")):
            raise ValueError(
                "must be addresses HOST:PORT, separated by commas, and nothing else (it is not shown here, because it "
                "may hold a password). User and password belong in sasl_username and sasl_password"
            )
        return value

    @model_validator(mode="after")
    def _credentials_fit_together(self) -> "KafkaSettings":
        """Require what the connection needs, and reject credentials and certificates that it would not use."""
        password = ["sasl_username", "sasl_password", "sasl_password_file"]
        token = ["sasl_oauth_token", "sasl_oauth_token_file"]
        key = ["ssl_keyfile", "ssl_key_password", "ssl_key_password_file"]
        if not self.uses_sasl:
            self._refuse(
                ["sasl_mechanism", *password, *token],
                f"security_protocol = {self.security_protocol} does not authenticate; set security_protocol to "
                "SASL_SSL (or SASL_PLAINTEXT, without encryption)",
            )
        elif self.sasl_mechanism == _OAUTH:
            if not self.has_secret("sasl_oauth_token"):
                raise ValueError(
                    f"sasl_mechanism = {_OAUTH} needs sasl_oauth_token (in the environment) or sasl_oauth_token_file"
                )
            self._refuse(password, f"sasl_mechanism = {_OAUTH} logs in with a token alone")
        else:
            if not (self.sasl_mechanism and self.sasl_username and self.has_secret("sasl_password")):
                raise ValueError(
                    f"security_protocol = {self.security_protocol} needs sasl_mechanism, sasl_username and "
                    "sasl_password (in the environment, or by sasl_password_file)"
                )
            self._refuse(
                token,
                f"sasl_mechanism = {self.sasl_mechanism} logs in with user and password; for a token set "
                f"sasl_mechanism to {_OAUTH}",
            )
        if not self.uses_tls:
            self._refuse(
                ["ssl_cafile", "ssl_certfile", *key],
                f"security_protocol = {self.security_protocol} does not encrypt; set security_protocol to "
                f"{'SASL_SSL' if self.uses_sasl else 'SSL'}",
            )
        elif self.ssl_certfile is None:
            self._refuse(key, "a private key needs its certificate; set ssl_certfile")
        return self

    def _refuse(self, names: list[str], cause: str) -> None:
        unused = [name for name in names if getattr(self, name)]
        if unused:
            raise ValueError(f"{', '.join(unused)} would not be used: {cause}")


class TopicSettings(Table):
    """The names of the five topics."""

    input: str = Field("news.raw", min_length=1)
    """The worker reads items from this topic."""
    output: str = Field("news.unique", min_length=1)
    """Items let through, byte for byte as they came."""
    duplicates: str = Field("news.duplicates", min_length=1)
    """Items held back, with the evidence in headers."""
    dead_letters: str = Field("news.dead-letters", min_length=1)
    """Records that cannot be judged, with the reason in headers."""
    changelog: str = Field("news.dedup-changelog", min_length=1)
    """Log from which a member restores the index. Cleanup policy delete, retention at least window + the input's
    retention + a day."""

    @field_validator("*")
    @classmethod
    def _is_taken_by_kafka(cls, value: str) -> str:
        if not _TOPIC.fullmatch(value) or value in (".", ".."):
            raise ValueError(
                f"{value[:40]!r} is no name of a topic: Kafka takes up to 249 of the letters a to z and A to Z, "
                "digits, '.', '_' and '-'"
            )
        return value

    @model_validator(mode="after")
    def _are_distinct(self) -> "TopicSettings":
        names = list(self.model_dump().values())
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"each topic needs its own name; used twice: {', '.join(repeated)}")
        return self


# A host, a port and a path: messages show it, so it must not contain a password.
_URL = re.compile(r"https?://([\w.-]+|\[[0-9A-Fa-f:.%\w]+\])(:\d+)?(/[\w./~%-]*)?")


class RegistrySettings(SecretTable):
    """The schema registry of the input's producers, if they write Avro or Protobuf."""

    url: str = ""
    """Address of the registry's REST API, as Confluent has it: http://HOST:8081. Apicurio's is
    http://HOST:8080/apis/ccompat/v7. Install the extra `registry`. Unset: values of a registry's serializers are read
    if they are JSON; others become dead letters."""
    user: str | None = None
    """User of a login by password. Unset: `password` is a bearer token."""
    password: SecretStr | None = None
    """Password of the user, or the token of a login without one. Set it in the environment. A file is read again for
    each request."""
    password_file: Path | None = None
    """File with the password."""
    ca_file: Path | None = None
    """PEM file of the CAs that sign the registry's certificate. Unset: those of the operating system."""

    @model_validator(mode="after")
    def _fits_together(self) -> "RegistrySettings":
        if self.url and not _URL.fullmatch(self.url):
            raise ValueError(
                "url must be http://HOST:PORT or https://HOST:PORT, with a path if the registry has one, and nothing "
                "else (it is not shown here, because it may hold a password); user and password are settings of their"
                " own"
            )
        unused = [name for name in type(self).model_fields if name != "url" and getattr(self, name)]
        if unused and not self.url:
            raise ValueError(f"{', '.join(unused)} would not be used: there is no registry; set url")
        if self.user and not self.has_secret("password"):
            raise ValueError("a user needs a password; set password, or leave user out")
        if self.ca_file and not self.url.startswith("https"):
            raise ValueError("ca_file would not be used: url does not begin with https")
        return self


class WorkerSettings(Table):
    """The worker's loop on Kafka."""

    scope: Literal["global", "partition"] = "global"
    """global: one index for all partitions; one member is active and the others stand by. partition: one index for each
    partition, and the members share the partitions, for a topic keyed by language that is too much for one member."""
    # The records of a transaction share its cost, some 45 ms of round trips. A backlog of 40,000 articles took, in µs
    # an item: 119 with 1,000, 96 with 2,000, 101 with 3,000.
    batch_items: int = Field(2000, ge=1, le=20_000)
    """Most records in a transaction. A slow stream makes smaller transactions. Lower it where a reader of the output
    cannot wait for 2,000 items of a backlog."""
    memory: Size = Field(default_factory=available, ge=2**20)
    """Memory of this process in bytes, such as 1536M. batch_bytes, max_record_bytes and [window] max_originals follow
    from it, and are refused where they do not fit into it. Unset: the container's limit, or the machine's memory. Give
    all members of a group the same."""
    batch_bytes: Size = Field(default_factory=lambda data: batch_bytes(data.get("memory", 0)), ge=2**16)
    """Most bytes in a transaction. Unset: a 128th of memory, from 1M to 32M. Lower it where transactions of long items
    take too long."""
    transaction_timeout: Duration = Field(timedelta(seconds=30), ge=timedelta(seconds=5))
    """After this time the broker aborts the transaction of a dead member. Also the time limit of a commit. Raise it for
    slow brokers that need more than half of it."""
    session_timeout: Duration = Field(timedelta(seconds=10), ge=timedelta(seconds=1))
    """A member that is silent for this long loses its partitions, and another one takes over. Raise it where machines
    stand still for seconds."""
    max_record_bytes: Size = Field(default_factory=lambda data: record_bytes(data.get("memory", 0)), ge=2**16)
    """Largest record, unpacked, and largest line or row of a file. A larger record becomes a dead letter without its
    value. Unset: a 256th of memory, from 1M to 32M. Raise it where the brokers take larger ones."""

    @property
    def is_global(self) -> bool:
        """Whether one member has all partitions, in one task."""
        return self.scope == "global"

    @model_validator(mode="after")
    def _records_fit_into_memory(self) -> "WorkerSettings":
        """Check explicit values; `most_originals` (index/footprint.py) checks that originals fit, too."""
        takes = work_bytes(self.batch_bytes, self.max_record_bytes)
        if takes > self.memory and self.model_fields_set & {"memory", "batch_bytes", "max_record_bytes"}:
            raise ValueError(
                f"batch_bytes = {sized(self.batch_bytes)} and max_record_bytes = {sized(self.max_record_bytes)} take "
                f"up to {sized(takes)}, more than memory = {sized(self.memory)}; raise memory, and the container's "
                "limit with it, or lower the others"
            )
        return self


# In random characters: more than anyone can try out over a network.
_SHORTEST_TOKEN = 16


class ObserveSettings(SecretTable):
    """Status page, metrics and health over HTTP."""

    host: str = "127.0.0.1"
    """Address to listen on. In a container: `::`, which serves IPv4, too. Empty: serve nothing."""
    port: int = Field(9464, ge=0, le=65534)
    """Port of the status page and /metrics. The next one has /healthz and /livez alone, for probes: they are answered
    however many connections the first one has. 0: two free ones, which the log names."""
    allowed_hosts: str = ""
    """Names, separated by commas, under which the status page may be opened besides addresses, localhost and `host`,
    such as that of a reverse proxy. Other names are refused, since any website could point its own name here and read
    the page. With a token every name is served. /metrics, /healthz and /livez have no texts, and are served under every
    name."""
    token: SecretStr | None = None
    """Token that the status page and /metrics require: `Authorization: Bearer TOKEN`, or the token as the password of
    any user, which browsers ask for. /healthz and /livez stay open, and without the token name no reason."""
    token_file: Path | None = None
    """File with the token."""
    tls_certfile: Path | None = None
    """PEM file of the server's certificate and its chain: serve HTTPS instead of HTTP. A replaced file is used from the
    next connection on."""
    tls_keyfile: Path | None = None
    """PEM file of its private key. Unset: it is in tls_certfile."""
    recent_items: int = Field(10_000, ge=0, le=1_000_000)
    """Items that the status page keeps for search and for copies beside their originals: verdict, headline and the
    first 1,500 characters, at most 2.7 kB each. 0: keep none and show no text, where nobody may read it there."""

    @property
    def health_port(self) -> int:
        """The port for probes: the one after `port`, or 0 for a free one."""
        return self.port + 1 if self.port else 0

    @model_validator(mode="after")
    def _fits_together(self) -> "ObserveSettings":
        if self.tls_keyfile is not None and self.tls_certfile is None:
            raise ValueError("tls_keyfile would not be used: a private key needs its certificate; set tls_certfile")
        if len(self.secret("token") or " " * _SHORTEST_TOKEN) < _SHORTEST_TOKEN:
            raise ValueError(f"token has fewer than {_SHORTEST_TOKEN} characters; make one with: openssl rand -hex 32")
        return self


_HOST_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


class FeedsSettings(Table):
    """What `stream-dedup feeds` may ask."""

    internal: str = ""
    """Hosts and networks, separated by commas, that may be asked on any port although they are not public, such as
    news.intern, 10.1.0.0/16. Others are asked at public addresses on ports 80 and 443 only, whatever a feed, a page or
    a redirect says. A listed feed needs no entry, unless it is redirected to another host, or --pages shall read its
    host."""

    @field_validator("internal")
    @classmethod
    def _names_hosts(cls, value: str) -> str:
        for one in _listed(value):
            if _network(one) is None and not _HOST_NAME.fullmatch(one):
                raise ValueError(
                    f"{one[:40]!r} is neither a host nor a network; write names, addresses and networks such as "
                    "news.intern, 10.1.0.0/16, without scheme and port"
                )
        return value

    def is_internal(self, host: str, *addresses: IPv4Address | IPv6Address) -> bool:
        """Return whether the operator named this host, or networks that contain all its addresses.

        >>> from ipaddress import ip_address
        >>> settings = FeedsSettings(internal="news.intern, 10.1.0.0/16")
        >>> [settings.is_internal(host, ip_address("10.1.2.3")) for host in ("news.intern", "a.example")]
        [True, True]
        >>> settings.is_internal("a.example", ip_address("10.2.2.3"))
        False
        """
        named = _listed(self.internal)
        networks = [network for one in named if (network := _network(one))]
        return host in named or (bool(addresses) and all(any(one in each for each in networks) for one in addresses))


def _listed(text: str) -> list[str]:
    return [one.strip().lower() for one in text.split(",") if one.strip()]


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None
