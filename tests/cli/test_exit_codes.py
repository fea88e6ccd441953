"""The exit code of each command: 2 for wrong usage or settings, before any work; 1 if the work fails.

Every command of `COMMANDS` is run as a person runs it, through `main`, in this process. A command without a case here
fails the first test.
"""

import gc
import socket
from pathlib import Path

import pytest

from stream_dedup.kafka import client
from stream_dedup.tools.cli import measure
from tests.cli.commands import COMMANDS, exit_of

# Command -> arguments with which its work fails, and words of the message. NOTHING stands for a port where nothing
# listens, DIR for a directory; None: it takes no input and cannot fail.
FAILING: dict[str, tuple[str, str] | None] = {
    "run": None,  # it waits for a broker; tests/kafka/test_security.py ends it with errors on a real one
    "demo": ("--bootstrap 127.0.0.1:NOTHING", "no broker answers at 127.0.0.1:NOTHING"),
    "kafka": None,  # it waits for Ctrl-C; tests/tools/demo/test_demo.py ends it with errors
    "feeds": ("DIR/nowhere.opml --once", "nowhere.opml"),
    "feed": ("", "no broker answers at 127.0.0.1:NOTHING"),
    "check": ("DIR/nowhere.jsonl", "there is no file DIR/nowhere.jsonl"),
    "trial": ("--bootstrap 127.0.0.1:NOTHING --input news", "no broker answers at 127.0.0.1:NOTHING"),
    "filter": ("DIR/nowhere.jsonl --output DIR/out.jsonl", "there is no file DIR/nowhere.jsonl"),
    "pairs": ("DIR/nowhere.jsonl --output DIR/out.jsonl", "there is no file DIR/nowhere.jsonl"),
    "explain": ("a b --in DIR/nowhere.jsonl", "nowhere.jsonl"),
    "evaluate": ("DIR/nowhere.jsonl", "nowhere.jsonl"),
    "sample": ("DIR/sample --duplicates DIR/nowhere.jsonl --input DIR/nowhere.jsonl", "nowhere.jsonl"),
    "plan": None,
    "reset": ("", "no broker answers at 127.0.0.1:NOTHING"),
    "send": ("--tombstone b", "no broker answers at 127.0.0.1:NOTHING"),
    "tail": ("--once", "no broker answers at 127.0.0.1:NOTHING"),
    "give-back": ("b", "no broker answers at 127.0.0.1:NOTHING"),
    "migrate": ("", "no broker answers at 127.0.0.1:NOTHING"),
    "health": ("--url http://127.0.0.1:NOTHING/healthz", "no worker listens at http://127.0.0.1:NOTHING/healthz"),
    "topics create": ("", "no broker answers at 127.0.0.1:NOTHING"),
    "topics check": ("", "no broker answers at 127.0.0.1:NOTHING"),
    "topics fix": ("", "no broker answers at 127.0.0.1:NOTHING"),
    "groups show": ("", "no broker answers at 127.0.0.1:NOTHING"),
    "groups set-offset": ("latest", "no broker answers at 127.0.0.1:NOTHING"),
    "state inspect": ("DIR/nowhere", "nowhere"),
    "state verify": ("DIR/nowhere", "nowhere"),
    "state copy": ("/dev/null", "127.0.0.1:NOTHING"),
    "config show": None,
    "config reference": None,
    "config metrics": None,
}


@pytest.fixture
def nothing() -> str:
    """A port of this machine where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


def test_every_command_has_a_case() -> None:
    assert set(FAILING) == set(COMMANDS)


@pytest.mark.parametrize("words", FAILING)
def test_an_unknown_option_exits_with_2(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_of(monkeypatch, *f"{words} --surely-not-an-option".split()) == 2
    assert "--surely-not-an-option" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [words for words, command in COMMANDS.items() if any("--config" in param.opts for param in command.params)]
)
def test_an_unknown_setting_exits_with_2_and_names_the_one_that_was_meant(
    words: str, tmp_path: Path, nothing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[window]\nlenght = "3d"\n')
    arguments = (FAILING[words] or ("", ""))[0].replace("NOTHING", nothing).replace("DIR", str(tmp_path))
    arguments = {"plan": "--items 1000", "health": ""}.get(words, arguments)  # with --url it needs no settings
    assert exit_of(monkeypatch, *f"{words} {arguments} --config {settings}".split()) == 2
    shown = capsys.readouterr().err
    assert f"{settings}" in shown
    assert "[window] lenght: there is no such setting (did you mean [window] length?)" in " ".join(shown.split())


@pytest.mark.parametrize("words", [words for words, case in FAILING.items() if case is not None])
def test_work_that_fails_exits_with_1_and_says_where(
    words: str, tmp_path: Path, nothing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client, "_BOOTSTRAP_MS", 300)
    monkeypatch.setattr(measure, "_has_terminal", lambda: True)
    monkeypatch.setenv("STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS", f"127.0.0.1:{nothing}")
    case = FAILING[words]
    assert case is not None
    arguments, message = (part.replace("NOTHING", nothing).replace("DIR", str(tmp_path)) for part in case)
    assert exit_of(monkeypatch, *f"{words} {arguments}".split()) == 1
    shown = capsys.readouterr()
    assert message in " ".join((shown.out + shown.err).split())
    assert "Traceback" not in shown.err
    gc.collect()  # the client's refused connections, while their warnings are expected
