"""Text of strangers cannot steer the terminal, whichever command prints it: headlines, ids, names of files and topics.

Commands run as a person runs them, through `main`, with foreign text that would rename the window, colour it, turn the
direction of writing and break the line. All of it arrives escaped, on standard output and standard error. The name of
an emoji, which an id may hold between colons, does not become one.
"""

import io
import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from stream_dedup.cli import main
from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.news.item import Item
from stream_dedup.observe.logs import CleanStream
from stream_dedup.tools.demo import run as demo_run
from stream_dedup.tools.terminal import Console, ProgressLine
from tests.cli import modes
from tests.cli.commands import exit_of
from tests.observe.watched import report

MARKS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HOSTILE = f":ship:[link=evil.example][red]owned\x1b]0;\x07\x1b[31m\x9b32m\x7f\x85\u2028\u2029{MARKS}"
# What may arrive beside printable text.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

TEXT = "The old ferry was taken out of service on Monday morning after engineers had found cracks in its hull."
MORE = {"a": "", "b": "", "c": "It will be back in spring, said the port, and then it sails again."}
ITEMS = [
    {"id": name + HOSTILE, "title": f"Ferry{HOSTILE}", "text": f"{TEXT} {more}{HOSTILE}", "source": name + HOSTILE}
    for name, more in MORE.items()
]
LABELS = [
    {"earlier": ITEMS[0]["id"], "later": ITEMS[1]["id"], "label": "different", "corpus": HOSTILE},
    {"earlier": ITEMS[0]["id"], "later": ITEMS[2]["id"], "label": "copy", "new": "no"},
]
NEWS, LOST, HELD, STATE = (f"{name}{HOSTILE}" for name in ("news.jsonl", "lost", "held.jsonl", "state"))
FILES = {
    NEWS: "".join(json.dumps(item) + "\n" for item in ITEMS) + "{broken\n",
    "labels.jsonl": "".join(json.dumps(label) + "\n" for label in LABELS),
    "secret.toml": f"[kafka]\ngroup_id = {json.dumps(HOSTILE)}\n[item.fields]\ntitle = {json.dumps(HOSTILE)}\n",
    "unknown.toml": f"[kafka]\n{json.dumps(HOSTILE)} = 1\n",
}


def _demo(patch: pytest.MonkeyPatch) -> None:
    modes._demo(patch)
    patch.setattr("stream_dedup.tools.cli.demo.sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: False)))
    run_demo = demo_run.run_demo

    def judge(*values: Any, screen: Any, **options: Any) -> Any:
        item = Item(HOSTILE, HOSTILE, TEXT, HOSTILE, 0)
        bad = Verdict(HOSTILE, Kind.BAD, Stage.NONE, False, None, None, reason=HOSTILE)
        screen.batch(report([item, item], [Verdict(HOSTILE, Kind.UNIQUE, Stage.NONE, True), bad]))
        return run_demo(*values, screen=screen, **options)

    patch.setattr("stream_dedup.tools.demo.run.run_demo", judge)


def _trial(patch: pytest.MonkeyPatch) -> None:
    modes._trial(patch)
    patch.setitem(modes.FILES, "a.json", json.dumps(ITEMS[0]))


def _sample(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("stream_dedup.tools.cli.measure._has_terminal", lambda: True)
    patch.setattr("click.getchar", lambda: "q")


FILTER = ("filter", NEWS, "--output", f"new{HOSTILE}.jsonl", "--duplicates", HELD)
PAIR = (ITEMS[0]["id"], ITEMS[2]["id"], "--in", NEWS)
# The ways in which text reaches a terminal: arguments, the command before, and a stand-in for what is outside of the
# process.
USES: dict[str, tuple[tuple[str, ...], tuple[str, ...], modes.Boundary | None]] = {
    "a picture": (("demo",), (), _demo),
    "a table": (("check", NEWS), (), None),
    "a table of settings": (("config", "show", "--config", "secret.toml"), (), None),
    "tables of a report": (("evaluate", NEWS, "--labels", "labels.jsonl"), (), None),
    "examples": (("trial", "--since", "9999d"), (), _trial),
    "names of files": (FILTER, (), None),
    "bad lines": (("pairs", NEWS, "--output", "p.jsonl", "--clusters", "c.jsonl"), (), None),
    "a warning": (
        ("pairs", NEWS, "--output", "p.jsonl", "--clusters", "c.jsonl", "--keep", f"source:{HOSTILE}"), (), None
    ),
    "side by side": (("explain", *PAIR), (), None),
    "questions": (("sample", "drawn", "--duplicates", HELD, "--input", NEWS), FILTER, _sample),
    "JSON": (("explain", *PAIR, "--json"), (), None),
    "an error": (("check", LOST), (), None),
    "an error of the settings": (("plan", "--config", "unknown.toml"), (), None),
    "wrong usage": (("filter", NEWS, "--format", HOSTILE, "--output", "new.jsonl"), (), None),
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_no_control_character_reaches_the_terminal(
    use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, before, boundary = USES[use]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    for name, text in FILES.items():
        Path(name).write_text(text, "utf-8")
    if before:
        exit_of(monkeypatch, *before)
    capsys.readouterr()
    if boundary:
        boundary(monkeypatch)
    exit_of(monkeypatch, *arguments)
    printed = "".join(capsys.readouterr())
    for part in (":ship:", "red]owned"):
        assert part in printed, "the foreign text is shown, and not interpreted"
    assert not set(CONTROL.findall(printed))


def test_json_is_equal_after_parsing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [item | {"id": name} for item, name in zip(ITEMS, "ab", strict=False)]
    exit_of(monkeypatch, "explain", *map(json.dumps, items), "--json")
    printed = capsys.readouterr().out
    assert not set(CONTROL.findall(printed))
    text = " ".join(passage["first"] for passage in json.loads(printed)["text"]["passages"])
    assert HOSTILE in text


def test_an_output_on_standard_output_keeps_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    line = json.dumps(ITEMS[0] | {"extra": MARKS + "\x9b"}, ensure_ascii=False)
    (tmp_path / "news.jsonl").write_text(f"{line}\n", "utf-8")
    exit_of(monkeypatch, "filter", str(tmp_path / "news.jsonl"), "--output", "-")
    assert capfd.readouterr().out == f"{line}\n"


def test_a_traceback_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "app", Mock(side_effect=ZeroDivisionError(HOSTILE)))
    exit_of(monkeypatch)
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert not set(CONTROL.findall(printed))


def test_a_console_uses_the_codes_of_a_terminal_and_foreign_text_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with redirect_stdout(CleanStream(sys.stdout)), redirect_stderr(CleanStream(sys.stderr)):
        with ProgressLine() as status:
            status(HOSTILE, 1, 2, HOSTILE)
        Console().print(HOSTILE, "bold", soft_wrap=True)
    printed = "".join(capsys.readouterr())
    assert "\x1b[1m:ship:[link=evil.example][red]owned\\u001b]0;" in printed
    assert "\x1b]0" not in printed
    assert set(CONTROL.findall(printed)) == {"\x1b"}, "the console's own"


def test_streams_keep_what_programs_ask_of_them() -> None:
    """Anything that writes bytes would pass by; click does so if it finds the buffer of a stream in ASCII."""
    stream = CleanStream(io.TextIOWrapper(io.BytesIO(), "ascii", "replace"))
    assert stream.encoding == "ascii"
    assert not hasattr(stream, "buffer")
    stream.writelines(["a\x1b", "b"])
    stream.flush()
    assert stream.uncleaned.buffer.getvalue() == b"a\\u001bb"
