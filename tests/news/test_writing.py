"""What happens to a text on its way is undone; what its author wrote stays."""

import pytest
from ftfy import fix_encoding
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.news import clean
from stream_dedup.news.clean import as_written

GERMAN = "Die Gebühren für Bürger könnten – stärker als „angekündigt“ – steigen, erklärte die Ministerin."


def written(text: str) -> str:
    return as_written("", text)[1]


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("See the map (https://a.example/x?utm_source=feed&b=1) here", "See the map () here"),
        ("图见https://a.example/x。", "图见。"),
        ("目撃（もくげき）する人", "目撃する人"),
        ("T H R E E   D E A D", "THREE   DEAD"),
        (GERMAN.encode().decode("cp1252", "replace"), GERMAN),
        ("Пожар је угашен", "Požar je ugašen"),
    ],
)
def test_the_way_is_undone(sent: str, meant: str) -> None:
    assert written(sent).replace("�", "") == meant.replace("“", "") or written(sent) == meant


@pytest.mark.parametrize(
    "text",
    [
        GERMAN,
        "SÃO PAULO e Ã, ÇÃO",
        "https://a.example/x",  # nothing but a link: it is what the text says
        "a b c d",
        "Мост открыт для движения",
        "Tickets at bus.example/new (see there)",
        "消防（東京）の発表",
        "L'été à Nîmes, « déjà »",
    ],
)
def test_what_the_author_wrote_stays(text: str) -> None:
    assert written(text) == text


def test_a_headline_is_read_in_the_script_of_its_text() -> None:
    assert as_written("Пожар у граду", "Пожар је угашен у уторак.")[0] == "Požar u gradu"


@given(st.text("aG:/. ?&xhtps图", max_size=60) | st.text(max_size=60))
def test_the_quick_looks_find_what_the_expressions_find(text: str) -> None:
    assert clean._is_misread(text) is bool(clean._MISREAD.search(text))
    sent = f"{text} Elm https://a.example/x{text}://{text}"
    assert clean._without_addresses(sent) == clean._ADDRESS.sub("", sent).strip()


@given(st.text("äöüßéèàçñåøšžČőűЖждыαβγאבגعربहिนไทย“”‘’–—…€ ", min_size=1, max_size=40), st.sampled_from(["", "Elm"]))
def test_whatever_ftfy_would_repair_is_repaired(text: str, title: str) -> None:
    """The look at the first letters passes over no text that was read wrongly as a whole."""
    for encoding in ("latin-1", "cp1252"):
        misread = text.encode().decode(encoding, "ignore")
        if not text[0].isspace():
            assert as_written(title, misread)[1] == fix_encoding(misread)


def test_repair_is_bounded() -> None:
    assert written("Ã©Ã©" * 60_000) == "Ã©Ã©" * 60_000
