"""docs/cli.md lists every command, and the example of docs/python.md prints its output."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from tests.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text("utf-8")


def test_the_page_names_every_command_and_no_other() -> None:
    named = {name for row in re.findall(r"^\| (`.*?) \|", PAGE, re.M) for name in re.findall(r"`(.*?)`", row)}
    assert named == {f"stream-dedup {path}" for path in COMMANDS}


def test_the_python_example_prints_its_output() -> None:
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    example, output = re.findall(r"```(?:python)?\n(.*?)```", page, re.S)[:2]
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(example, "docs/python.md", "exec"), {})  # noqa: S102 - our own page
    assert printed.getvalue() == output
