"""A command imports what it needs, and nothing for other commands."""

import json
import os
import subprocess
import sys

import pytest

from stream_dedup.cli.main import COMMANDS
from tests.cli.commands import ALL

# What takes long to import: the Kafka client, arrays and the core, HTML and XML, the settings, templates, metrics.
HEAVY = {
    "kafka", "numpy", "pydantic", "lxml", "selectolax", "tomllib", "msgspec", "jinja2", "prometheus_client", "httpx",
    "scipy", "matplotlib", "pyarrow", "pyspark", "pandas", "jgo",
}  # fmt: skip
RUN = """
import sys
sys.argv[0] = "stream-dedup"
from stream_dedup.cli.main import main
try:
    main()
finally:
    print("\\n", *sys.modules)
"""


def printed(*arguments: str, code: str = RUN, **environment: str) -> list[str]:
    """The lines that a run of the command prints; the last one names what it has imported."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.stdout.splitlines()


def imported(*arguments: str, code: str = RUN) -> set[str]:
    """The heavy packages that a run of the command imports."""
    return HEAVY & set(printed(*arguments, code=code)[-1].split())


def test_no_help_imports_anything_heavy() -> None:
    """What all commands import for their options, together."""
    assert imported(code="import sys, tests.cli.commands; print(*sys.modules)") == set()


@pytest.mark.parametrize(
    ("arguments", "needs"),
    [
        ("--version", set()),
        ("no-such-command", set()),
        ("health --url http://127.0.0.1:1/healthz", set()),
        ("config show", {"tomllib", "pydantic"}),
        ("config reference", {"tomllib", "pydantic"}),
        ("check PAGE", {"tomllib", "pydantic", "msgspec", "numpy", "lxml", "selectolax"}),
        ("explain A B", {"tomllib", "pydantic", "msgspec", "numpy", "lxml", "selectolax"}),
        ("plan", {"tomllib", "pydantic", "msgspec", "numpy"}),
    ],
)
def test_a_command_imports_nothing_for_other_commands(arguments: str, needs: set[str]) -> None:
    item = json.dumps({"id": "a", "title": "Elm bridge opens", "text": "On Monday."})
    files = {"PAGE": __file__, "A": item, "B": item}
    assert imported(*(files.get(word, word) for word in arguments.split())) <= needs


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("stream-dedup ", "run"),
        ("stream-dedup fi", "filter"),
        ("stream-dedup filter --o", "--output"),
        ("stream-dedup topics ", "fix"),
        ("stream-dedup pairs --engine ", "spark"),
    ],
)
def test_completion_offers_words_and_imports_nothing_heavy(words: str, offered: str) -> None:
    number = str(len(words.split(" ")) - 1)
    shown = printed(_STREAM_DEDUP_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=number)
    assert f"plain,{offered}" in shown
    assert HEAVY & set(shown[-1].split()) == set()


@pytest.mark.parametrize("module", ["kafka.topics", "kafka.client", "tools.topics.reader", "settings", "observe.probe"])
def test_a_light_module_imports_no_arrays(module: str) -> None:
    code = f"import sys, stream_dedup.{module}; print(*sys.modules)"
    assert imported(code=code) & {"numpy", "jinja2", "matplotlib", "pyarrow"} == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_has_the_first_paragraph_of_each_command_s_help(name: str) -> None:
    own = ALL[name]
    assert own.name == name
    assert COMMANDS[name][1] == own.help.split("\n\n")[0].replace("\n", " ")
