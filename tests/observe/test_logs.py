"""Log lines: JSON for machines, short lines for people, and no password in any output."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from stream_dedup.cli import main
from stream_dedup.errors import ConfigError, TransactionFailed
from stream_dedup.observe import logs
from stream_dedup.observe.probe import probe
from stream_dedup.settings import load_settings
from tests.broker import EmbeddedKafka, Listener
from tests.cli.commands import exit_of
from tests.harness.member import free_pair
from tests.harness.topics import make_settings, ready
from tests.harness.wait import wait_until
from tests.observe.asked import ask

SECRET = 'open "sesame" \\ 7'  # noqa: S105
log = logging.getLogger("stream_dedup.test")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    level = log.level
    log.setLevel(logging.INFO)
    with patch.dict(logs.SECRETS_READ, clear=True):  # those of other tests
        yield
    log.setLevel(level)
    logs.set_up("text")


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_json_line_has_time_logger_level_and_event(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("json")
    log.warning("task %s is lost\nby fencing", "0", extra={"task": "0", "seconds": 1.5, "partitions": [0, 1]})
    [line] = lines(capsys)
    fields = json.loads(line)
    assert fields.pop("time").endswith("Z")
    assert fields == {
        "level": "warning", "logger": "stream_dedup.test", "event": "task 0 is lost\nby fencing",
        "task": "0", "seconds": 1.5, "partitions": [0, 1],
    }  # fmt: skip


def test_a_traceback_is_in_the_same_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("json", [SECRET])
    password = SECRET
    try:
        raise ValueError(f"cannot log in with {password}")
    except ValueError:
        log.exception("it failed")
    [line] = lines(capsys)
    exception = json.loads(line)["exception"]
    assert "Traceback" in exception
    assert "cannot log in with ***" in exception


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_secret_is_replaced_by_stars_everywhere(form: logs.Form, capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(form, [SECRET, "", "sesame"])
    logging.getLogger("kafka").critical("config %s", {"sasl_plain_password": "x", "given": [SECRET]})
    log.warning("as bytes %s", SECRET.encode(), extra={"given": SECRET, "all": [SECRET], "error": OSError(SECRET)})
    text = "\n".join(lines(capsys))
    assert "***" in text
    assert "sesame" not in text


def test_a_secret_of_a_file_is_replaced_even_after_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The log was set up without secrets, as before the settings are read."""
    logs.set_up("json")
    file = tmp_path / "token"
    settings = []
    for secret in ("a-first-token-of-a-file", "a-second-token-of-a-file"):
        file.write_text(secret)
        settings.append(load_settings(observe={"token_file": file}))
        assert settings[0].observe.secret("token") == secret
    log.warning("of a-first-token-of-a-file and a-second-token-of-a-file")
    [line] = lines(capsys)
    assert json.loads(line)["event"] == f"of {logs.STARS} and {logs.STARS}"


def test_lines_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    said = "id \x1b[2J\rinvented, \u202etrap\x9b\x7f"
    logs.set_up("text")
    log.info(said)
    log.error("no broker")
    logs.set_up("json")
    log.info(said)
    first, second, third = lines(capsys)
    assert first.split(" ", 1)[1] == r"id \u001b[2J\u000dinvented, \u202etrap\u009b\u007f"
    assert second.split(" ", 1)[1] == "ERROR no broker"
    assert third.isprintable()
    assert json.loads(third)["event"] == said


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigError("[kafka] is wrong"), 2, "[kafka] is wrong"),
        (TransactionFailed("the broker is gone"), 1, "the broker is gone"),
        (ZeroDivisionError("oh"), 1, "the program failed; this is a bug, please report it"),
    ],
)
def test_the_error_that_ends_the_command_is_logged_in_one_line(
    error: Exception, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "app", Mock(side_effect=error))
    logs.set_up("json")
    assert exit_of(monkeypatch) == code
    [line] = lines(capsys)
    assert json.loads(line)["event"] == message
    assert ("Traceback" in line) == isinstance(error, ZeroDivisionError)


# -- the whole command, with a password -------------------------------------------------------------------

PASSWORD = "correct-horse-battery-staple"  # noqa: S105 - of a broker that lives for a minute


def run(variables: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "stream_dedup", "--verbose", "run"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env=os.environ | {f"STREAM_DEDUP_{name}": value for name, value in variables.items()},
    )  # fmt: skip


def with_sasl(bootstrap: str, password: str, port: int) -> dict[str, str]:
    return {
        "KAFKA__BOOTSTRAP_SERVERS": bootstrap,
        "KAFKA__SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "KAFKA__SASL_MECHANISM": "PLAIN",
        "KAFKA__SASL_USERNAME": "ann",
        "KAFKA__SASL_PASSWORD": password,
        "OBSERVE__PORT": str(port),
    }


def test_refused_settings_do_not_show_the_password() -> None:
    with run(with_sasl("127.0.0.1:1", PASSWORD, 0) | {"WORKER__SCOPE": "all"}) as process:
        _, output = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "scope" in output
    assert PASSWORD not in output


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_output_of_the_worker_contains_the_password(kafka_prepared: None, topic_name: Callable[[str], str]) -> None:
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="{PASSWORD}";'
    with EmbeddedKafka(
        listeners={"LOGIN": Listener("SASL_PLAINTEXT")},
        settings={"sasl.enabled.mechanisms": "PLAIN", "listener.name.login.plain.sasl.jaas.config": login},
    ) as kafka:
        page_port = free_pair()
        settings = ready(make_settings(kafka.bootstrap, topic_name))
        topics = {f"TOPICS__{name}".upper(): value for name, value in settings.topics.model_dump().items()}
        variables = with_sasl(kafka.addresses["LOGIN"], PASSWORD, page_port) | topics
        with run(variables | {"KAFKA__GROUP_ID": settings.kafka.group_id}) as process:
            try:
                health = f"http://127.0.0.1:{page_port + 1}/healthz"
                wait_until(lambda: probe(health)[0], "it is healthy", 240)
                shown = [
                    ask(f"http://127.0.0.1:{page_port}", path).body.decode()
                    for path in ("/metrics", "/healthz", "/", f"/{PASSWORD}")
                ]
                kafka.kill()  # what an outage logs
                wait_until(lambda: not probe(health)[1].startswith("ok"), "it has noticed the outage")
            finally:
                process.terminate()
                _, output = process.communicate(timeout=120)
        kafka.restart()
        with run(with_sasl(kafka.addresses["LOGIN"], f"not-{PASSWORD}", 0) | topics) as process:
            try:
                _, refused = process.communicate(timeout=240)  # it ends by itself, even if the broker is starting
            finally:
                process.kill()
    assert "stream_dedup_role" in shown[0]
    assert process.returncode == 1
    assert "Invalid username or password; check [kafka] sasl_mechanism, sasl_username" in refused
    for line in [*output.splitlines(), *refused.splitlines()]:
        assert json.loads(line)["event"], "every line is an object"
    assert not [one for one in [*shown, output, refused] if PASSWORD in one]


_CHATTY = """
import logging, os, sys
from stream_dedup.observe import logs
logs.set_up("text", waits=False)
log = logging.getLogger("stream_dedup.test")
log.setLevel(logging.INFO)
for number in range(LINES):
    log.info("line %06d of a log that nobody reads", number)
print("done", flush=True)
sys.stdin.read(1)
log.info("the last line")
logging.shutdown()
os._exit(0)
"""
_LINES = 50_000
_MISSING = "lines are missing here"


def test_a_log_that_nobody_reads_blocks_nothing_and_says_what_is_missing() -> None:
    """The reader of a real pipe stops, comes back, and misses nothing but the lines that it is told of."""
    code = _CHATTY.replace("LINES", str(_LINES))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "done\n", "it has written all its lines before anybody reads"
        lines: list[str] = []
        told = kept = 0  # lines that were read or said to be missing, and those that were read
        while told < _LINES:
            lines.append(process.stderr.readline())
            number = int(lines[-1].split()[2])
            if _MISSING in lines[-1]:
                told += number
            else:
                assert number == told, "what is missing is said in its place"
                told, kept = told + 1, kept + 1
        process.stdin.write(".")
        process.stdin.close()
        [last] = process.stderr
    assert process.returncode == 0
    assert told == _LINES
    assert 0 < kept < _LINES
    assert "line 000000 of" in lines[0], "the first lines are kept"
    assert "the last line" in last


def full_pipe() -> tuple[int, int]:
    """A pipe into which nothing more fits."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while os.write(writer, b"x" * 4096):
            pass
    os.set_blocking(writer, True)
    return reader, writer


def test_a_process_ends_although_nobody_reads_its_log() -> None:
    reader, writer = full_pipe()
    code = _CHATTY.replace("LINES", "9")
    subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stderr=writer, timeout=120, check=True)
    os.close(writer)
    os.close(reader)
