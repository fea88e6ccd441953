"""Every command by its words, groups and the program itself among them, and how tests run one."""

import json
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stream_dedup.cli import main


def _all(command: Any, path: str = "") -> dict[str, Any]:
    found = {path: command}
    for name, child in (getattr(command, "commands", None) or {}).items():
        # A group may list commands that it has not imported yet.
        found |= _all(command.load(name) if hasattr(command, "load") else child, f"{path} {name}".strip())
    return found


ALL = _all(main.app)
COMMANDS = {path: command for path, command in ALL.items() if getattr(command, "commands", None) is None}


def done(*arguments: object, code: int = 0, **options: Any) -> Result:
    """Run a command line that ends with this code. Errors of ours are raised."""
    result = CliRunner().invoke(main.app, list(map(str, arguments)), catch_exceptions=False, **options)
    assert result.exit_code == code, result.output
    return result


def run(*arguments: object, **options: Any) -> str:
    """Run a command line; return all that it prints."""
    return done(*arguments, **options).output


def words(*arguments: object, **options: Any) -> str:
    """What `run` returns, with single spaces."""
    return " ".join(run(*arguments, **options).split())


def json_of(*arguments: object, **options: Any) -> Any:
    """What a command prints as JSON."""
    return json.loads(done(*arguments, "--json", **options).stdout)


def exit_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run a command line as a person does, through `main`; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["stream-dedup", *arguments])
    with pytest.raises(SystemExit) as caught:
        main.main()
    return int(caught.value.code or 0)
