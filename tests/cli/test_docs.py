"""docs/cli.md lists every command, and the example of docs/python.md prints its output."""

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from stream_dedup.cli.main import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text("utf-8")


def commands(command: Any, path: str = "stream-dedup") -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)  # typer's groups are of its own copy of click
    if children is not None:
        for name in children:
            _, child, _ = command.resolve_command(typer.Context(command), [name])  # which imports it
            yield from commands(child, f"{path} {name}")
    else:
        yield path, command


COMMANDS = dict(commands(get_command(app)))


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_is_on_the_page_and_has_a_help(path: str) -> None:
    assert f"`{path}`" in PAGE
    shown = CliRunner().invoke(app, [*path.split()[1:], "--help"])
    assert shown.exit_code == 0
    assert COMMANDS[path].help


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_has_a_help(path: str) -> None:
    for parameter in COMMANDS[path].params:
        assert getattr(parameter, "help", None), f"{path} {parameter.name}"


def test_the_page_names_only_existing_commands() -> None:
    named = {name for row in re.findall(r"^\| (`.*?) \|", PAGE, re.M) for name in re.findall(r"`(.*?)`", row)}
    assert named == set(COMMANDS)


def test_the_python_example_prints_its_output() -> None:
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    example, output = re.findall(r"```(?:python)?\n(.*?)```", page, re.S)[:2]
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(example, "docs/python.md", "exec"), {})  # noqa: S102 - our own page
    assert printed.getvalue() == output
