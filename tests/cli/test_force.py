"""No command replaces a file without --force: a slip in a name would cost what it holds."""

from pathlib import Path

import pytest

from tests.cli.commands import exit_of
from tests.tools.batch.feed import feed, write

BEFORE = b"what was there before\n"
# Command -> its arguments, and the files that it writes.
WRITES: dict[str, tuple[str, ...]] = {
    "filter news.jsonl --output new.jsonl --duplicates held.jsonl --verdicts all.jsonl --report report.html": (
        "new.jsonl", "held.jsonl", "all.jsonl", "report.html",
    ),
    "filter news.jsonl --output new.jsonl --verdicts all.jsonl --report report.html --state state": (
        "new.jsonl", "all.jsonl", "report.html",
    ),
    "filter news.jsonl --output link.jsonl": ("link.jsonl",),
    "pairs news.jsonl --output pairs.jsonl --clusters clusters.jsonl": ("pairs.jsonl", "clusters.jsonl"),
    "evaluate news.jsonl --report report.html": ("report.html",),
}  # fmt: skip
CASES = [pytest.param(words, name, id=f"{words}: {name}") for words, names in WRITES.items() for name in names]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "news.jsonl", feed(40))
    (tmp_path / "link.jsonl").symlink_to("elsewhere.jsonl")
    return tmp_path


@pytest.mark.parametrize(("words", "name"), CASES)
def test_an_existing_output_is_refused_and_replaced_with_force(
    words: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).write_bytes(BEFORE)
    assert exit_of(monkeypatch, *words.split()) == 2
    assert "--force" in capsys.readouterr().err
    assert Path(name).read_bytes() == BEFORE
    assert exit_of(monkeypatch, *f"{words} --force".split()) == 0
    assert Path(name).read_bytes() != BEFORE


@pytest.mark.parametrize("words", list(WRITES))
def test_an_empty_file_is_no_loss(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in WRITES[words]:
        Path(name).write_bytes(b"")
    assert exit_of(monkeypatch, *words.split()) == 0


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/null"])
def test_what_is_no_file_is_never_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exit_of(monkeypatch, *f"filter news.jsonl --output {name}".split()) == 0


def test_a_finished_run_asked_for_again_needs_no_force(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "filter news.jsonl --output new.jsonl --state state"
    assert exit_of(monkeypatch, *words.split()) == 0
    before = Path("new.jsonl").read_bytes()
    assert exit_of(monkeypatch, *words.split()) == 0
    assert Path("new.jsonl").read_bytes() == before
