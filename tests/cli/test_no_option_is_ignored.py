"""No option of any command is ignored without a word: in each mode it has an effect, or it is refused.

`modes.TABLE` names for each command, mode and option which of the two, and with which arguments it shows. A new option
or command that it lacks fails here.
"""

import logging
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stream_dedup.cli.main import app, exit_code
from stream_dedup.errors import StreamDedupError
from tests.cli.commands import ALL
from tests.cli.modes import FILES, TABLE, Case, Mode

# Typer's own options, for the completion of a shell.
_OF_TYPER = {"--install-completion", "--show-completion"}
_GROUPS = {"topics", "groups", "state", "config"}

# Differ from run to run.
_TIMES = re.compile(r'\d+\.\d+ s, [\d,]+ items/s|"seconds":[\d.e-]+|\d+ µs|in \d+\.\d+ s|dedup-demo-\d+|\d\d:\d\d UTC')


def options_of(command: Any) -> set[str]:
    return {parameter.opts[0] for parameter in command.params if parameter.param_type_name == "option"} - _OF_TYPER


Outcome = tuple[int, str, dict[str, bytes]]
# Of a mode with these arguments more; each is the other half of several comparisons.
_KNOWN: dict[tuple[str, str, tuple[str, ...]], Outcome] = {}


def outcome(folder: Path, path: str, mode: Mode, *more: str) -> Outcome:
    """Run a command in a new folder: its exit code, what it prints, and the files that it leaves."""
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for arguments in mode.before:
            done = CliRunner().invoke(app, shlex.split(arguments))
            assert done.exit_code == 0, done.output
        mode.boundary(patch)
        # Options of the program itself come before the command.
        own = shlex.split(mode.arguments)
        result = CliRunner().invoke(
            app, [*path.split(), *own, *more] if path else [*more, *own], env={"COLUMNS": "100"}
        )
    code, printed = result.exit_code, result.stdout + result.stderr
    if isinstance(result.exception, StreamDedupError):
        code = exit_code(type(result.exception))
        printed += str(result.exception)
    elif result.exception and not isinstance(result.exception, SystemExit):
        printed += repr(result.exception)
    levels = [logging.getLogger(name).level for name in ("", "kafka")]
    files = {
        str(file.relative_to(folder)): b"" if file.suffix in {"", ".png", ".svg", ".html"} else file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.name not in FILES
    }
    return code, _TIMES.sub("", f"{printed} {levels}").replace(str(folder), "."), files


CASES = [
    pytest.param(path, mode, case, id=f"{path or 'program'}, {name}: {' '.join(case.more)}")
    for path, modes in TABLE.items()
    for name, mode in modes.items()
    for case in mode.cases
]
MODES = [
    pytest.param(path, mode, id=f"{path or 'program'}, {name}")
    for path, modes in TABLE.items()
    for name, mode in modes.items()
]


def test_the_table_has_every_command() -> None:
    assert set(TABLE) | _GROUPS == set(ALL)
    assert not any(options_of(ALL[group]) for group in _GROUPS)
    for path, modes in TABLE.items():
        assert modes or not options_of(ALL[path]), f"{path} has options, and no mode shows what they do"


@pytest.mark.parametrize(("path", "mode"), MODES)
def test_each_mode_has_every_option(path: str, mode: Mode) -> None:
    assert {case.more[0] for case in mode.cases} == options_of(ALL[path])


@pytest.mark.parametrize(("path", "mode"), MODES)
def test_without_a_change_the_outcome_is_the_same(path: str, mode: Mode, tmp_path: Path) -> None:
    """Otherwise the comparison of outcomes could not fail."""
    first, second = (outcome(tmp_path / name, path, mode) for name in "ab")
    assert first == second
    assert first[0] in (0, 1), first[1]
    _KNOWN[path, mode.arguments, ()] = first


@pytest.mark.parametrize(("path", "mode", "case"), CASES)
def test_an_option_has_an_effect_or_is_refused(path: str, mode: Mode, case: Case, tmp_path: Path) -> None:
    if case.message:
        code, printed, _ = outcome(tmp_path / "a", path, mode, *case.more)
        assert code == 2, printed
        assert re.search(case.message, " ".join(re.sub("[│╭╮╰╯─]", " ", printed).split()))
        return
    place = path, mode.arguments, case.beside
    if place not in _KNOWN:
        _KNOWN[place] = outcome(tmp_path / "a", path, mode, *case.beside)
    without = _KNOWN[place]
    with_it = outcome(tmp_path / "b", path, mode, *case.beside, *case.more)
    assert with_it != without
    assert with_it[0] != 2, f"refused, and not used: {with_it[1]}"
