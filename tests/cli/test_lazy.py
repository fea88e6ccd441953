"""A command imports what it needs, and nothing for other commands."""

import json
import os
import subprocess
import sys

import pytest

from stream_dedup.cli.main import COMMANDS
from tests.cli.commands import ALL
from tests.cli.commands import COMMANDS as PATHS

# Packages that take long to import, and that many installations lack: plots, columnar tables, Spark.
RARE = {"scipy", "matplotlib", "pyarrow", "pyspark", "pandas", "jgo"}
# And those that a command's own options do not need: the Kafka client, arrays, templates.
HEAVY = RARE | {"kafka", "numpy", "jinja2", "prometheus_client"}
PRINT_MODULES = """
import json, sys
sys.argv[0] = "stream-dedup"
from stream_dedup.cli.main import main
try:
    main()
finally:
    print("\\n" + json.dumps(sorted(name for name in sys.modules if "." not in name)))
"""


def imported(*arguments: str, **environment: str) -> set[str]:
    """The packages that a run of the command imports."""
    command = [sys.executable, "-c", PRINT_MODULES, *arguments]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("path", PATHS)
def test_the_help_of_a_command_imports_nothing_rare(path: str) -> None:
    assert imported(*path.split(), "--help") & RARE == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["topics", "--help"],
        ["config", "show"],
        ["config", "reference"],
        ["health", "--url", "http://127.0.0.1:1/healthz"],
        ["no-such-command"],
    ],
    ids=" ".join,
)
def test_a_light_command_imports_nothing_heavy(arguments: list[str]) -> None:
    assert imported(*arguments) & HEAVY == set()


def test_the_list_of_commands_and_completion_load_no_settings() -> None:
    more = HEAVY | {"tomllib", "structlog"}  # the settings import tomllib
    assert imported("--help") & more == set()
    for words, number in (("stream-dedup ", "1"), ("stream-dedup fi", "1")):
        modules = imported(_STREAM_DEDUP_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=number)
        assert modules & more == set(), words


@pytest.mark.parametrize("module", ["kafka.topics", "kafka.client", "kafka.reader", "settings", "observe.probe"])
def test_a_light_module_imports_no_arrays(module: str) -> None:
    code = f"import json, sys, stream_dedup.{module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) & {"numpy", "jinja2", "matplotlib", "pyarrow"} == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_has_the_first_paragraph_of_each_command_s_help(name: str) -> None:
    own = ALL[name]
    assert own.name == name
    assert COMMANDS[name].help == own.help.split("\n\n")[0].replace("\n", " ")
