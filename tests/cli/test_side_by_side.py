"""Two items side by side: differences in colour, and no control characters from news texts."""

import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from stream_dedup.cli.console import one_line
from stream_dedup.cli.explain import side_by_side
from stream_dedup.cli.main import app
from stream_dedup.dedup.passages import compare_texts

LONG = " ".join(f"word{n}" for n in range(200))
HOSTILE = "\x1b]0;owned\x07\x1b[2J [red]sold[/red] [/] :bomb: \x9b31m \u202etxt.exe \x00"


def shown(first: str, second: str, *, color: bool = False) -> str:
    console = Console(width=120, force_terminal=color, color_system="standard" if color else None, highlight=False)
    with console.capture() as caught:
        console.print(side_by_side(compare_texts("", ""), compare_texts(first, second), console.width))
    return caught.get()


def test_long_common_passages_are_shortened_to_the_words_at_the_difference() -> None:
    text = shown(f"{LONG} yes {LONG}", f"{LONG} no {LONG}")
    flat = " ".join(text.split())
    assert "… (194 words) …" in flat
    assert "word199 yes word0" in flat
    assert "word199 no word0" in flat
    assert "word100" not in flat


def test_equal_texts_show_their_beginning() -> None:
    flat = " ".join(shown(LONG, LONG).split())
    assert "word0 word1" in flat
    assert "… (194 words) …" in flat


def test_long_differences_are_shortened_too() -> None:
    flat = " ".join(shown(LONG, LONG.replace("word", "other")).split())
    assert "… (80 words) …" in flat


def test_the_number_of_differences_is_limited() -> None:
    second = " ".join(f"{LONG} n{n}" for n in range(60))
    assert "more places" in shown(" ".join([LONG] * 60), second)


def test_differences_are_coloured_and_common_passages_dim() -> None:
    text = shown("It cost 14 crowns", "It cost 17 crowns", color=True)
    assert "\x1b[1;31m14" in text
    assert "\x1b[1;32m17" in text
    assert "\x1b[2mIt cost" in text


def test_control_characters_are_replaced() -> None:
    for text in (shown(f"{HOSTILE} a", f"{HOSTILE} b"), shown(HOSTILE, "")):
        assert not set(text) & set("\x1b\x07\x9b\u202e\x00")
        assert "[red]sold[/red]" in text
        assert ":bomb:" in text


@pytest.mark.parametrize("place", ["id", "title", "text", "source"])
def test_the_command_prints_no_control_characters(place: str) -> None:
    first = {"id": "a", "title": "Ferry stopped", "text": LONG, "source": "a.example"}
    second = first | {"id": "b"} | {place: f"{HOSTILE} Ferry"}
    result = CliRunner().invoke(app, ["explain", json.dumps(first), json.dumps(second)], catch_exceptions=False)
    assert result.exit_code == 0
    assert not set(result.stdout) & set("\x1b\x07\x9b\u202e\x00")


def test_scripts_and_joined_emoji_stay_as_they_are() -> None:
    for text in ("新闻 ข่าว خبر", "क्‍ष", "👩‍🚒"):
        assert one_line(text) == text
