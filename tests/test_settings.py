"""Settings: the precedence of sources, the messages for wrong values, and secrets that print nowhere."""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from stream_dedup.errors import ConfigError
from stream_dedup.kafka import topics
from stream_dedup.news.fields import paths_of
from stream_dedup.phrases import SECRETS_READ
from stream_dedup.settings import PREFIX, Settings, load_settings, secrets_of, service_variables
from stream_dedup.tools.reference import effective

SECRET = "hunter2-of-the-feed"  # noqa: S105 - not a real one


@pytest.fixture(autouse=True)
def _no_settings_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith(PREFIX)]:
        monkeypatch.delenv(name)


def write_settings(folder: Path, text: str) -> Path:
    path = folder / "settings.toml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("name", [None, *Settings.model_fields])
def test_a_copy_takes_no_name_or_value_that_a_file_may_not_have(name: str | None) -> None:
    table = getattr(Settings(), name) if name else Settings()
    with pytest.raises(ValidationError, match="nothing_of_this_name"):
        table.model_copy(update={"nothing_of_this_name": 1})
    first = next(iter(type(table).model_fields))
    with pytest.raises(ValidationError, match=first):
        table.model_copy(update={first: object()})
    assert table.model_copy(update={first: getattr(table, first)}) == table


# -- rules for sources ------------------------------------------------------------------------------------


def test_sources_are_read_from_a_list_or_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_DEDUP_SOURCES__IGNORE", "Ads.example, www.own.example")
    rules = load_settings(
        sources={"pass": ["Elm Valley Wire", "dpa/AFX", "dpa/afx"], "prefer": ["wire.example"]}
    ).sources.rules
    assert rules == {
        "elm valley wire": "pass", "dpa/afx": "pass", "ads.example": "ignore", "own.example": "ignore",
        "wire.example": "prefer",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            {"pass": ["a.example"], "prefer": ["A.example"]},
            r"\[sources\]: 'a.example' stands in pass and in prefer; leave",
        ),
        ({"ignore": ["a.example", " "]}, r"\[sources\] ignore: one of the sources is empty; leave it out"),
        (
            {"ignore": ["*.Wire.example"]},
            r"'\*.Wire.example' is no source; write a host .* without scheme, path and \*",
        ),
        ({"pass": ["a.example/news"]}, "is no source"),
        ({"pass": [".a.example"]}, "is no source"),
        ({"prefer": 3}, r'prefer: write a list of sources, such as \["wire.example", "Elm Valley Wire"\]'),
    ],
)
def test_sources_that_mean_nothing_are_refused(rules: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_settings(sources=rules)


# -- precedence of sources --------------------------------------------------------------------------------


def test_the_environment_wins_over_the_file_and_the_file_over_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM_DEDUP_TOPICS__INPUT", "of.environment")
    monkeypatch.setenv("stream_dedup_kafka__group_id", "mine")
    monkeypatch.setenv("STREAM_DEDUP_ITEM__FIELDS__TITLE", "head.line")
    text = "[topics]\ninput = 'of.file'\noutput = 'of.file'\n[item]\nfields = { text = 'body', title = 'no' }\n"
    settings = load_settings(write_settings(tmp_path, text))
    assert (settings.topics.input, settings.topics.output) == ("of.environment", "of.file")
    assert settings.topics.changelog == Settings().topics.changelog
    assert settings.kafka.group_id == "mine"
    assert settings.item.fields == {"text": "body", "title": "head.line"}
    assert paths_of(settings.item)["published"] == [["published"]]


# -- durations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"), [("7d", timedelta(days=7)), ("1.5h", timedelta(minutes=90)), (" 2 d ", timedelta(days=2))]
)
def test_a_duration_is_a_number_and_a_unit(text: str, expected: timedelta) -> None:
    assert load_settings(window={"length": text}).window.length == expected


@pytest.mark.parametrize(
    "value", ["7 days", "-1d", "7", "d", "P7D", "1h30m", "", "1.2.3s", "nan s", "1e3s", "²s", 7, 7.5, True]
)
def test_any_other_duration_is_refused_with_the_right_form(value: object) -> None:
    with pytest.raises(ConfigError, match=r"\[window\] length: write a duration as a number and a unit: 250ms"):
        load_settings(window={"length": value})


# -- wrong values: the message has the setting's name and the cure -----------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[window]\nlength = '0s'", ["[window] length", "greater than 0"]),
        ("[worker]\nscope = 'all'", ["[worker] scope", "'global' or 'partition'"]),
        ("[worker]\ntransaction_timeout = '1s'", ["[worker] transaction_timeout", "or equal to 5 seconds"]),
        ("[fingerprint]\nbody_bins = 100", ["[fingerprint] body_bins: this setting is gone: ", "verify = 'exact'"]),
        ("[item]\nlist = 'data.items'", ["[item] list: this setting is gone: write it as query"]),
        ("[topics]\ninput = 'a'\noutput = 'a'", ["[topics]", "its own name", "used twice: a"]),
        (
            "[item]\npreset = 'text'\ntime = 'published'",
            ["[item]: time = 'published' would not be used", "an item has no date"],
        ),
        ("[kafkaa]\ngroup_id = 'x'", ["[kafkaa]", "no such setting", "config reference"]),
        ("[kafka]\nbootstrap_server = 'x:1'", ["no such setting (did you mean [kafka] bootstrap_servers?)"]),
        ("[topic]\ninput = 'x'", ["[topic]: there is no such setting (did you mean [topics]?)"]),
        ("length = '2d'", ["[length]: there is no such setting (did you mean [window] length?)"]),
        ("[window]\nlength = '99999999999999d'", ["[window] length: this duration is too long"]),
        ("[item.fields]\nkop = 'title'", ["fields.kop: must be 'id', ", "ours is on the left, yours on the right"]),
        ("[kafka", ["settings.toml", "not valid TOML", "end of document"]),
        ("[topics]\ninput = 'a b'", ["[topics] input: 'a b' is no name of a topic", "digits, '.', '_' and '-'"]),
        ("[topics]\nchangelog = '..'", ["[topics] changelog", "is no name of a topic"]),
        (f"[topics]\ninput = '{'a' * 250}'", ["[topics] input", "up to 249"]),
        (
            "[kafka]\nbootstrap_servers = ['a:9092', 'b:9092']",
            ["[kafka] bootstrap_servers: must be one text with commas", "bootstrap_servers = 'HOST:PORT,HOST:PORT'"],
        ),
        (
            "[kafka]\nbootstrap_servers = 'a:9092, SASL_SSL://b:9092'",
            ["[kafka] bootstrap_servers: must be addresses HOST:PORT without SASL_SSL://", "set security_protocol to"],
        ),
    ],
)
def test_a_wrong_file_is_refused_with_the_setting_and_the_cure(tmp_path: Path, text: str, words: list[str]) -> None:
    path = write_settings(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_settings(path)
    assert str(path) in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_every_problem_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(write_settings(tmp_path, "[decision]\njaccard = 2\nlead = 3\n[observe]\nport = -1\n"))
    assert len(str(caught.value).splitlines()) == 1 + 3


@pytest.mark.parametrize("content", [None, b'[kafka]\ngroup_id = "caf\xe9"\n'])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "settings.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"cannot read the settings file .*settings\.toml"):
        load_settings(path)


def test_a_file_of_windows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    text = "[kafka]\ngroup_id = 'mine'\n"
    path.write_text(text, "utf-8-sig")
    settings = load_settings(path)
    assert settings.kafka.group_id == "mine"
    assert effective(settings, path, {})["kafka"]["group_id"]["origin"] == "file"
    (tmp_path / "token").write_text("t" * 32 + "\r\n", "utf-8-sig")
    assert load_settings(observe={"token_file": str(tmp_path / "token")}).observe.secret("token") == "t" * 32
    path.write_text(text, "utf-16")
    with pytest.raises(ConfigError, match=r"settings\.toml: it is not UTF-8 .*; save it as UTF-8"):
        load_settings(path)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVER", "(did you mean STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS?)"),
        ("STREAM_DEDUP_KAFKA__GROUP_ID__X", ""),
        ("STREAM_DEDUP_KAFKA", ""),
        ("STREAM_DEDUP_ITEM__FIELDS", ""),
        ("STREAMDEDUP_KAFKA__GROUP_ID", "(did you mean STREAM_DEDUP_KAFKA__GROUP_ID?)"),
        ("STREAMDEDUP_KAFKA", ""),
    ],
)
def test_an_unknown_variable_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, hint: str) -> None:
    monkeypatch.setenv(name, SECRET)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    assert f"unknown setting in the environment: {name}" in str(caught.value)
    assert hint in str(caught.value)
    assert "the form is STREAM_DEDUP_TABLE__NAME, see `stream-dedup config" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_variable_of_a_setting_that_is_gone_is_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_DEDUP_ITEM__FORMAT", "text")
    with pytest.raises(ConfigError, match=r"STREAM_DEDUP_ITEM__FORMAT: this setting is gone: .*preset = 'text'"):
        load_settings()


def test_variables_of_a_kubernetes_service_with_a_similar_name_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STREAMDEDUP_SERVICE_HOST", "STREAMDEDUP_PORT_9464_TCP", "STREAMDEDUP_KAFKA_PORT", "STREAMDEDUP"):
        monkeypatch.setenv(name, "x")
    assert load_settings() == Settings()


# What Kubernetes derives from the Services stream-dedup (of two ports) and stream-dedup-page.
OF_SERVICES = {
    "STREAM_DEDUP_SERVICE_HOST": "10.0.0.1",
    "STREAM_DEDUP_SERVICE_PORT": "9464",
    "STREAM_DEDUP_SERVICE_PORT_METRICS": "9464",
    "STREAM_DEDUP_PORT": "tcp://10.0.0.1:9464",
    "STREAM_DEDUP_PORT_9464_TCP": "tcp://10.0.0.1:9464",
    "STREAM_DEDUP_PORT_9464_TCP_PROTO": "tcp",
    "STREAM_DEDUP_PORT_9464_TCP_PORT": "9464",
    "STREAM_DEDUP_PORT_9464_TCP_ADDR": "10.0.0.1",
    "STREAM_DEDUP_PORT_53_UDP_ADDR": "10.0.0.1",
    "STREAM_DEDUP_PAGE_SERVICE_HOST": "10.0.0.2",
    "STREAM_DEDUP_PAGE_PORT": "udp://10.0.0.2:53",
    "STREAM_DEDUP_PAGE_PORT_80_TCP_ADDR": "10.0.0.2",
}


def test_variables_of_a_kubernetes_service_of_its_name_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OF_SERVICES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STREAM_DEDUP_OBSERVE__PORT", "8080")
    assert load_settings().observe.port == 8080
    assert set(service_variables()) == OF_SERVICES.keys()


@pytest.mark.parametrize("name", ["STREAM_DEDUP_PORT", "STREAM_DEDUP_OBSERVE_PORT"])
def test_a_port_of_one_s_own_is_a_misspelt_setting(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "9464")
    with pytest.raises(ConfigError, match=f"unknown setting in the environment: {name}"):
        load_settings()


def test_a_wrong_value_in_the_environment_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_DEDUP_WINDOW__LENGTH", "a week")
    with pytest.raises(ConfigError, match=r"\[window\] length: write a duration .*from STREAM_DEDUP_WINDOW__LENGTH"):
        load_settings()


def test_commands_in_messages_name_the_user_s_file(tmp_path: Path) -> None:
    path = tmp_path / "my settings.toml"
    path.write_text("[topics]\ninput = 'mine'\n")
    settings = load_settings(path, kafka={"group_id": "mine"})
    assert settings.config_option == f" --config '{path}'"
    assert load_settings().config_option == ""
    problems = topics.problems(settings, {})
    assert problems[0].endswith(f"create it with: stream-dedup topics create --config '{path}'")


# -- secrets ----------------------------------------------------------------------------------------------


def sasl(sasl_password: str) -> dict[str, str]:
    password = {"sasl_password": sasl_password}
    return {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "me"} | password


def test_a_secret_prints_as_stars_in_every_form() -> None:
    settings = load_settings(kafka=sasl(sasl_password=SECRET))
    password = settings.kafka.sasl_password
    assert password is not None
    assert password.get_secret_value() == SECRET
    forms = [str(settings), repr(settings), repr(settings.kafka), settings.model_dump_json(), str(password)]
    assert all(SECRET not in form and "****" in form for form in forms)


@pytest.mark.parametrize(
    "broken",
    [
        {"security_protocol": "SASL_TLS"},  # another setting of the table is wrong
        {"sasl_mechanism": "NTLM"},
        {"sasl_username": ""},  # the table as a whole is wrong
        {"nonsense": "x"},
    ],
)
def test_a_secret_is_in_no_error_message(broken: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(kafka=sasl(sasl_password=SECRET) | broken)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "servers",
    [
        f"me:{SECRET}@broker:9092",
        f"SASL_SSL://me:{SECRET}@broker:9092",
        f"broker:9092,me:{SECRET}@other:9092",
        f"broker:9092?password={SECRET}",
        f'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="{SECRET}";',
        f"broker:9092 {SECRET}",
    ],
)
def test_a_password_among_the_addresses_is_refused_and_not_shown(servers: str) -> None:
    with pytest.raises(ConfigError, match=r"must be addresses HOST:PORT.*belong in sasl_username") as caught:
        load_settings(kafka={"bootstrap_servers": servers})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("servers", ["broker", "broker-1.my_net:9092, broker-2:9092", "[::1]:9092,127.0.0.1:1"])
def test_addresses_are_taken_in_every_form_of_kafka(servers: str) -> None:
    assert load_settings(kafka={"bootstrap_servers": servers}).kafka.bootstrap_servers == servers


@pytest.mark.parametrize("value", ["19216811", SECRET])
def test_a_secret_that_is_no_text_is_in_no_error_message(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(write_settings(tmp_path, f"[kafka]\nsasl_password = {value}\n"))
    assert value not in str(caught.value)


@pytest.mark.parametrize("overrides", [{}, {"kafka": {"group_id": "x"}}])
def test_a_table_written_as_a_setting_is_refused(tmp_path: Path, overrides: dict[str, dict[str, str]]) -> None:
    with pytest.raises(ConfigError, match=r"\[kafka\]: this is a table: write \[kafka\]"):
        load_settings(write_settings(tmp_path, 'kafka = "127.0.0.1:9092"'), **overrides)


# -- secrets in files --------------------------------------------------------------------------------------


def sasl_by_file(path: Path) -> dict[str, str]:
    return sasl("") | {"sasl_password_file": str(path)}


def test_a_secret_comes_from_its_file_and_again_when_the_file_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "password"
    path.write_text(f"{SECRET}\n", "utf-8")
    settings = load_settings(kafka=sasl_by_file(path))
    assert settings.kafka.secret("sasl_password") == SECRET
    path.write_text("another", "utf-8")
    assert secrets_of(settings) == ["another"]
    assert {SECRET, "another"} <= SECRETS_READ.keys()
    path.unlink()
    assert settings.kafka.secret("sasl_password") == "another"
    assert "the secret that it had before is used" in caplog.text
    assert SECRET not in f"{settings!r} {settings.model_dump_json()}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"\[kafka\]: sasl_password_file: cannot read .*password .*mount the secret there"),
        (b"", "sasl_password_file: .*password is empty"),
        (b"\n", "sasl_password_file: .*password is empty"),
        (b"hunter2\xff", "sasl_password_file: .*password is not UTF-8 text"),
    ],
)
def test_a_secret_file_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load_settings(kafka=sasl_by_file(path))
    assert "hunter2" not in str(caught.value)


PLAINTEXT = {"security_protocol": "PLAINTEXT", "sasl_mechanism": None}
TOKEN = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token": "x"}


@pytest.mark.parametrize(
    ("kafka", "message"),
    [
        ({"sasl_username": "me"}, "SASL_SSL needs sasl_mechanism, sasl_username and sasl_password"),
        (sasl("x") | PLAINTEXT, "sasl_username, sasl_password would not be used.*to SASL_SSL"),
        ({"sasl_password": "x", "sasl_password_file": __file__}, "sasl_password and sasl_password_file are both set"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "needs sasl_oauth_token .in the environment. or sasl_oauth_token_file"),
        (TOKEN | {"sasl_username": "me"}, "sasl_username would not be used: .* with a token alone"),
        (sasl("x") | {"sasl_oauth_token": "x"}, "sasl_oauth_token would not be used: .*set sasl_mechanism to OAUTHB"),
        (PLAINTEXT | {"ssl_cafile": "ca.pem"}, "ssl_cafile would not be used: .*set security_protocol to SSL"),
        (PLAINTEXT | {"security_protocol": "SSL", "ssl_keyfile": "key.pem"}, "ssl_keyfile would .*set ssl_certfile"),
    ],
)
def test_credentials_that_do_not_fit_each_other_are_refused(kafka: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"\[kafka\].*{message}"):
        load_settings(kafka={"security_protocol": "SASL_SSL", **kafka})


def test_a_variable_that_was_made_of_a_file_loses_the_final_newline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"USERNAME": "ann", "PASSWORD": "secret ", "MECHANISM": "PLAIN"}.items():
        monkeypatch.setenv(f"STREAM_DEDUP_KAFKA__SASL_{name}", value + "\n")
    kafka = load_settings(kafka={"security_protocol": "SASL_SSL"}).kafka
    assert (kafka.sasl_username, kafka.secret("sasl_password")) == ("ann", "secret ")
