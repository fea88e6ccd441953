"""What a registry may answer: only what says that a schema does not exist is about the record."""

import ssl
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from stream_dedup.errors import BadItem, ConfigError, RegistryAway
from stream_dedup.registry import RegistryClient
from stream_dedup.settings import RegistrySettings, load_settings
from tests.registry.server import AVRO, RegistryServer


def client(registry: RegistryServer, **settings: Any) -> RegistryClient:
    return RegistryClient(RegistrySettings(**{"url": registry.url, **settings}))


@pytest.mark.parametrize("status", [301, 429, 500, 503])
def test_an_error_of_the_registry_is_not_the_records_fault(registry: RegistryServer, status: int) -> None:
    number, registry.status = registry.register("AVRO", AVRO), status
    with pytest.raises(RegistryAway, match=f"with {status}"):
        client(registry).schema(number)


def test_a_wrong_address_is_not_an_unknown_schema(registry: RegistryServer) -> None:
    number = registry.register("AVRO", AVRO)
    with pytest.raises(RegistryAway, match="/apis/ccompat/v7"):
        client(registry, url=registry.url + "/apis/registry/v2").schema(number)
    with pytest.raises(BadItem, match="no such schema"):
        client(registry).schema(9)


def test_an_answer_in_another_form_is_named(registry: RegistryServer) -> None:
    registry.answer = lambda path: (200, ["no", "schema"])  # type: ignore[method-assign]
    with pytest.raises(RegistryAway, match="another form"):
        client(registry).schema(1)


def test_a_registry_that_does_not_answer_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr("stream_dedup.registry._SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RegistryAway, match="timed out"):
            RegistryClient(RegistrySettings(url=url)).schema(1)


def test_logins_by_password_and_by_token(registry: RegistryServer, tmp_path: Path) -> None:
    number = registry.register("AVRO", AVRO)
    registry.login = "Basic YW5uOnM6ZWNyZXQ="
    assert client(registry, user="ann", password="s:ecret").schema(number).kind == "AVRO"  # noqa: S106 - made up
    secret = tmp_path / "token"
    secret.write_text("one\n")
    reader = client(registry, password_file=secret)
    with pytest.raises(RegistryAway, match=r"refuses the login \(401\)") as refused:
        reader.schema(number)
    assert "one" not in str(refused.value)
    registry.login = "Bearer two"
    secret.write_text("two\n")
    assert reader.schema(number).kind == "AVRO"


def test_a_token_that_no_header_can_hold_is_not_shown(registry: RegistryServer) -> None:
    with pytest.raises(RegistryAway) as failed:
        client(registry, **{"password": "sec\nret"}).schema(1)
    assert "ret" not in str(failed.value).removeprefix("the schema registry").replace("not answer", "")


def test_tls_trusts_the_given_ca_alone(tmp_path: Path) -> None:
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    with RegistryServer(context) as server:
        number = server.register("AVRO", AVRO)
        assert client(server, ca_file=file).schema(number).kind == "AVRO"
        with pytest.raises(RegistryAway, match="certificate verify failed"):
            client(server).schema(number)
        file.write_text("no certificate")
        with pytest.raises(ConfigError, match="ca_file"):
            client(server, ca_file=file)


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"user": "a", "password": "b"}, "user, password would not be used: there is no registry"),
        ({"ca_file": "ca.pem"}, "ca_file would not be used: there is no registry"),
        ({"url": "http://a:8081", "ca_file": "ca.pem"}, "url does not begin with https"),
        ({"url": "http://a:8081", "user": "a"}, "a user needs a password"),
        ({"url": "http://a:pass@b:8081"}, "not shown here"),
        ({"url": "file:///etc/passwd"}, "must be http"),
        ({"url": "a:8081"}, "must be http"),
    ],
)
def test_settings_without_effect_are_refused(settings: dict[str, Any], cause: str) -> None:
    with pytest.raises(ValidationError) as refused:
        RegistrySettings(**settings)
    assert cause in str(refused.value)


def test_a_registry_is_of_no_use_for_plain_text() -> None:
    with pytest.raises(ConfigError, match=r"\[registry\] url would not be used"):
        load_settings(registry={"url": "http://a:8081"}, item={"preset": "text"})
