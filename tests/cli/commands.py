"""Every command by its words, groups and the program itself among them, and how a person runs one: through `main`."""

import sys
from typing import Any

import pytest
from typer.main import get_command

from stream_dedup.cli import main


def _all(command: Any, path: str = "") -> dict[str, Any]:
    found = {path: command}
    for name, child in (getattr(command, "commands", None) or {}).items():
        # A group may list commands that it has not imported yet.
        found |= _all(command.load(name) if hasattr(command, "load") else child, f"{path} {name}".strip())
    return found


ALL = _all(get_command(main.app))
COMMANDS = {path: command for path, command in ALL.items() if getattr(command, "commands", None) is None}


def exit_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run a command line; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["stream-dedup", *arguments])
    with pytest.raises(SystemExit) as caught:
        main.main()
    return int(caught.value.code or 0)
