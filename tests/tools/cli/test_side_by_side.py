"""Two items side by side: differences in colour, what is long shortened. Control characters: test_terminal.py."""

import pytest

from stream_dedup.news.item import Item
from stream_dedup.tools.cli.compare import side_by_side
from stream_dedup.tools.marks import compare_items
from stream_dedup.tools.terminal import Console, Line

LONG = " ".join(f"word{n}" for n in range(200))


def lines_of(first: str, second: str) -> list[Line]:
    return list(side_by_side(*compare_items(*(Item("", "", text, "", 0) for text in (first, second))), 120))


def shown(first: str, second: str) -> str:
    return "\n".join("".join(part for part, _ in line) for line in lines_of(first, second))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (f"{LONG} yes {LONG}", f"{LONG} no {LONG}", ["… (194 words) …", "word199 yes word0", "word199 no word0"]),
        (LONG, LONG, ["word0 word1", "… (194 words) …"]),
        (LONG, LONG.replace("word", "other"), ["… (80 words) …"]),
    ],
    ids=["common passages, to the words at the difference", "equal texts, to their beginning", "differences"],
)
def test_long_passages_are_shortened(first: str, second: str, expected: list[str]) -> None:
    flat = " ".join(shown(first, second).split())
    assert all(text in flat for text in expected)
    assert "word100" not in flat


def test_the_number_of_differences_is_limited() -> None:
    parts = [LONG.replace("word", f"part{n}") for n in range(60)]
    assert "more places" in shown(" ".join(parts), " new ".join(parts))


def test_differences_are_coloured_and_common_passages_dim(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    Console().print_lines(lines_of("It cost the town 14", "It cost the town 17"))
    text = capsys.readouterr().out
    assert "\x1b[31m\x1b[1m14" in text
    assert "\x1b[32m\x1b[1m17" in text
    assert "\x1b[2mIt cost" in text
