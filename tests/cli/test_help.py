"""Every help text on a terminal of 80 columns: complete, unchanged, nothing parsed as markup."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.tools.evaluate.labels import NEW, NOTHING_NEW, words_of
from stream_dedup.tools.evaluate.sampling import DIFFERENT, SAME
from tests.cli.commands import ALL


def help_of(path: str) -> str:
    result = CliRunner().invoke(app, [*path.split(), "--help"], env={"COLUMNS": "80"}, prog_name="stream-dedup")
    assert result.exit_code == 0, result.output
    return result.output


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("path", ALL)
def test_a_help_text_is_shown_word_for_word_on_the_width_of_the_terminal(path: str) -> None:
    shown = help_of(path)
    for line in shown.splitlines():
        assert len(line) <= 80
        whole = line.startswith("Usage:") or not line.endswith("...")
        assert whole, f"cut: {line}; the first sentence of the help must be shorter"
    # A table breaks lines at the end of its columns.
    text = one_line(re.sub("[│╭╮╰╯─]", " ", shown))
    assert one_line(ALL[path].help) in text
    assert "range>" not in text, "give the option a metavar"
    assert "list[Path]" not in text
    for parameter in ALL[path].params:
        assert one_line(parameter.help) in text
        assert parameter.metavar or parameter.param_type_name == "option", "in capitals, as the usage shows it"


@pytest.mark.parametrize("field", ["label", "new"])
def test_help_and_page_list_the_words_of_labels(field: str) -> None:
    words = set(re.findall(r"[a-z0-9]+", words_of(field).removesuffix(" are understood too)")))
    page = (Path(__file__).parents[2] / "docs" / "labels.md").read_text("utf-8")
    for text in (help_of("evaluate"), page.partition("A label is")[2].partition("\n\n")[0]):
        assert words <= set(re.findall(r"[a-z0-9]+", text.lower()))
    assert {SAME, DIFFERENT, NEW, NOTHING_NEW} <= set(re.findall(r"[a-z]+", help_of("sample")))
