"""TLS and every SASL mechanism on a real Kafka, and what a user sees when a credential or a certificate is wrong.

One broker has a listener for each case. Its certificates are made for the test.
"""

import base64
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, ScramMechanism, UserScramCredentialUpsertion

from stream_dedup.errors import ConfigError, StreamError, TransactionFailed
from stream_dedup.kafka import client
from stream_dedup.kafka.topics import check_topics
from stream_dedup.settings import Settings, load_settings
from tests.broker import VERSION, EmbeddedKafka, Listener
from tests.certificates import Authority
from tests.harness.feed import article, feed
from tests.harness.topics import make_settings, ready
from tests.harness.wait import wait_until
from tests.worker.support import run_until

pytestmark = pytest.mark.kafka

PASSWORD = "correct-horse-battery-staple"  # noqa: S105 - of a broker that lives for some seconds
WRONG = "wrong-horse-battery-staple"
KEY_PASSWORD = "sesame-of-the-private-key"  # noqa: S105
USER = "ann,the=editor"  # SCRAM has a meaning for both characters
_SASL = "org.apache.kafka.common.security"
LISTENERS = {"TLS": "SSL", "MUTUAL": "SSL", "ELSEWHERE": "SSL", "LOGIN": "SASL_SSL"}


def bearer_token(seconds: float, name: str = "ann") -> str:
    """Return an unsigned token, which a broker accepts that has no key to check signatures with."""

    def part(fields: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()

    now = time.time()
    return f"{part({'alg': 'none'})}.{part({'sub': name, 'iat': now - 60, 'exp': now + seconds})}."


class SecureKafka(EmbeddedKafka):
    """A broker with a listener for each of LISTENERS. `addresses` has their addresses."""

    def __init__(self, directory: Path) -> None:
        self.trusted, self.other = Authority(directory, "trusted"), Authority(directory, "other")
        self.client, self.stranger = self.trusted.client("ann", KEY_PASSWORD), self.other.client("eve")
        here = self.trusted.server("here", "127.0.0.1")
        elsewhere = self.trusted.server("elsewhere", "elsewhere.example")
        settings = {}
        for name in LISTENERS:
            prefix = f"listener.name.{name.lower()}.ssl"
            settings[f"{prefix}.keystore.type"] = settings[f"{prefix}.truststore.type"] = "PEM"
            settings[f"{prefix}.keystore.location"] = str((elsewhere if name == "ELSEWHERE" else here).both)
            settings[f"{prefix}.truststore.location"] = str(self.trusted.pem)
        login = {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "plain.sasl.jaas.config": f'{_SASL}.plain.PlainLoginModule required "user_{USER}"="{PASSWORD}";',
            "scram-sha-256.sasl.jaas.config": f"{_SASL}.scram.ScramLoginModule required;",
            "scram-sha-512.sasl.jaas.config": f"{_SASL}.scram.ScramLoginModule required;",
            "oauthbearer.sasl.jaas.config": f"{_SASL}.oauthbearer.OAuthBearerLoginModule required;",
            "oauthbearer.connections.max.reauth.ms": "60000",
        }
        settings |= {f"listener.name.login.{name}": value for name, value in login.items()}
        settings["listener.name.mutual.ssl.client.auth"] = "required"
        super().__init__(
            settings=settings, listeners={name: Listener(protocol) for name, protocol in LISTENERS.items()}
        )


@pytest.fixture(scope="module")
def broker(kafka_prepared: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with SecureKafka(tmp_path_factory.mktemp("certificates")) as kafka:
        if VERSION >= (3, 5):  # without ZooKeeper since then
            with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
                for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                    added = UserScramCredentialUpsertion(USER, mechanism, PASSWORD)
                    assert admin.alter_user_scram_credentials([added]) == {USER: None}
                wait_until(
                    lambda: len(admin.describe_user_scram_credentials([USER])[USER]["credential_infos"]) == 2,
                    "the user has both",
                )
        yield kafka


def tls(broker: SecureKafka, listener: str = "TLS", **more: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.addresses[listener],
        "security_protocol": LISTENERS[listener],
        "ssl_cafile": str(broker.trusted.pem),
        **more,
    }


def mutual(broker: SecureKafka) -> dict[str, Any]:
    certificate = {"ssl_certfile": str(broker.client.cert), "ssl_keyfile": str(broker.client.key)}
    return tls(broker, "MUTUAL", **certificate, ssl_key_password=KEY_PASSWORD)


def login(broker: SecureKafka, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return tls(broker, "LOGIN", sasl_mechanism=mechanism, sasl_username=USER, sasl_password=password)


def bearer(broker: SecureKafka, **token: Any) -> dict[str, Any]:
    return tls(broker, "LOGIN", sasl_mechanism="OAUTHBEARER", **token)


GOOD: dict[str, Callable[[SecureKafka], dict[str, Any]]] = {
    "TLS": tls,
    "mutual TLS": mutual,
    "PLAIN": lambda broker: login(broker, "PLAIN"),
    "SCRAM-SHA-256": lambda broker: login(broker, "SCRAM-SHA-256"),
    "SCRAM-SHA-512": lambda broker: login(broker, "SCRAM-SHA-512"),
    "OAUTHBEARER": lambda broker: bearer(broker, sasl_oauth_token=bearer_token(600)),
}


@pytest.fixture(scope="module")
def plain(broker: SecureKafka) -> Settings:
    """Settings of an administrator, whose topics exist."""
    return ready(make_settings(broker.bootstrap, lambda role: f"security-{role}"))


@pytest.mark.parametrize("case", GOOD)
@pytest.mark.slow
def test_each_kind_of_connection_works(broker: SecureKafka, plain: Settings, case: str) -> None:
    check_topics(plain.model_copy(update={"kafka": load_settings(kafka=GOOD[case](broker)).kafka}))


@pytest.mark.parametrize("case", ["mutual TLS", "OAUTHBEARER"])
def test_a_worker_judges_over_it(broker: SecureKafka, topic_name: Callable[[str], str], case: str) -> None:
    plain = ready(make_settings(broker.bootstrap, topic_name))
    sent = feed(plain, [(b"a", article("a", "The bridge over the Elm opened on Monday, the mayor said at noon."))])
    settings = plain.model_copy(
        update={"kafka": load_settings(kafka=GOOD[case](broker) | {"group_id": plain.kafka.group_id}).kafka}
    )
    run_until(settings, len(sent))


def test_a_replaced_token_is_used_before_the_former_one_expires(
    broker: SecureKafka, plain: Settings, tmp_path: Path
) -> None:
    """The broker ends a connection when its token expires, unless the client has logged in again before."""
    file = tmp_path / "token"
    expires = time.time() + 4  # time for the first login on a busy machine
    file.write_text(bearer_token(expires - time.time()) + "\n", "utf-8")
    settings = load_settings(kafka=bearer(broker, sasl_oauth_token_file=str(file)))
    with closing(client.make(KafkaAdminClient, client.connection(settings))) as admin:
        file.write_text(bearer_token(600), "utf-8")
        while time.time() < expires + 1:
            assert admin.describe_topics(["none"])
            time.sleep(0.5)
        file.write_text(bearer_token(-5), "utf-8")
    with pytest.raises(StreamError, match=r"sasl_oauth_token: has it expired"):
        check_topics(plain.model_copy(update={"kafka": settings.kafka}))


# -- what a user sees -----------------------------------------------------------------------------------------

WRONG_SETTINGS: dict[str, tuple[Callable[[SecureKafka], dict[str, Any]], str]] = {
    "PLAIN": (
        lambda broker: login(broker, "PLAIN", WRONG),
        "Invalid username or password; check [kafka] sasl_mechanism, sasl_username and sasl_password",
    ),
    "SCRAM": (
        lambda broker: login(broker, "SCRAM-SHA-512", WRONG),
        "; check [kafka] sasl_mechanism, sasl_username and sasl_password",
    ),
    "OAUTHBEARER": (
        lambda broker: bearer(broker, sasl_oauth_token=bearer_token(-5, "wrong-horse-battery-staple")),
        "sasl_oauth_token: has it expired, and is it for this cluster?",
    ),
    "untrusted certificate": (
        lambda broker: tls(broker) | {"ssl_cafile": str(broker.other.pem)},
        "set [kafka] ssl_cafile to the PEM file of the CA that did",
    ),
    "wrong host name": (
        lambda broker: tls(broker, "ELSEWHERE"),
        "the broker's certificate is for another host (IP address mismatch, certificate is not valid for "
        "'127.0.0.1'); name the host as in the certificate",
    ),
    "no client certificate": (
        lambda broker: tls(broker, "MUTUAL"),
        "it demands a client certificate: set [kafka] ssl_certfile and ssl_keyfile",
    ),
    "stranger's certificate": (
        lambda broker: tls(
            broker, "MUTUAL", ssl_certfile=str(broker.stranger.cert), ssl_keyfile=str(broker.stranger.key)
        ),
        "it refuses the client certificate ",
    ),
    "wrong key password": (
        lambda broker: mutual(broker) | {"ssl_key_password": WRONG},
        "an encrypted key needs ssl_key_password or ssl_key_password_file",
    ),
}


@pytest.mark.parametrize("case", WRONG_SETTINGS)
def test_wrong_settings_are_refused_with_the_cure_and_without_a_secret(
    broker: SecureKafka,
    plain: Settings,
    case: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, message = WRONG_SETTINGS[case]
    monkeypatch.setattr(client, "_BOOTSTRAP_MS", _NEVER_MS)
    began = time.monotonic()
    with pytest.raises((StreamError, ConfigError), match=re.escape(message)) as refused:
        check_topics(plain.model_copy(update={"kafka": load_settings(kafka=make(broker)).kafka}))
    assert not isinstance(refused.value, TransactionFailed), "a worker would try again for ever"
    assert "\n" not in str(refused.value)
    for secret in SECRETS:
        assert secret not in f"{refused.value} {caplog.text}"
    assert time.monotonic() - began < _NEVER_MS / 2000, "found at once, not when the time to find a broker is over"


# The time to find a broker: longer than anything takes here on a busy machine.
_NEVER_MS = 200_000
SECRETS = (WRONG, PASSWORD, KEY_PASSWORD, "eyJ")  # the last: what every token begins with


@pytest.mark.parametrize("case", ["OAUTHBEARER", "wrong host name"])
@pytest.mark.slow
def test_a_worker_with_wrong_settings_ends_with_one_line_that_names_the_cure(broker: SecureKafka, case: str) -> None:
    make, message = WRONG_SETTINGS[case]
    variables = {f"STREAM_DEDUP_KAFKA__{name}".upper(): value for name, value in make(broker).items()}
    ended = subprocess.run(
        [sys.executable, "-m", "stream_dedup", "--verbose", "run"],
        stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, timeout=240, check=False,
        env=os.environ | variables | {"STREAM_DEDUP_OBSERVE__PORT": "0"},
    )  # fmt: skip
    assert ended.returncode == 1, ended.stdout
    last = json.loads(ended.stdout.splitlines()[-1])
    assert last["level"] == "critical"
    assert message in last["event"]
    assert "\n" not in last["event"]
    for secret in SECRETS:
        assert secret not in ended.stdout


def test_files_that_cannot_be_used_are_named(broker: SecureKafka, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("", "utf-8")
    for changed, message in {
        ("ssl_cafile", str(tmp_path / "missing.pem")): "ssl_cafile: cannot read .*missing.pem",
        ("ssl_cafile", str(empty)): "ssl_cafile: .*empty.pem has no certificate in PEM form",
        ("ssl_certfile", str(tmp_path / "missing.pem")): "ssl_certfile: cannot read ",
        ("ssl_keyfile", str(broker.stranger.key)): "the key must belong to the certificate",
        ("ssl_certfile", str(empty)): "both must be PEM",
    }.items():
        settings: Settings = load_settings(kafka=mutual(broker) | dict([changed]))
        with pytest.raises(ConfigError, match=rf"\[kafka\] .*{message}"):
            client.connection(settings)
