"""An item is a correction only if it says so, in a mark that is set apart."""

import re
from itertools import product
from pathlib import Path

import pytest

from stream_dedup.dedup.corrections import IN_HEADLINE, IN_TEXT, NEW_VERSION, corrections
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings

TABLE = Path(__file__).parents[2] / "stream_dedup/dedup/corrections.txt"

MARKED = [
    "CORRECTED-Bridge costs 83 million",
    "(CORRECTED) - Bridge costs 83 million",
    "UPDATE 2-CORRECTED-Bridge costs 83 million",
    "CORRECTED 2-Bridge costs 83 million",
    "Correction: Bridge costs 83 million",
    "Bridge costs 83 million [Clarification]",
    "Bridge costs 83 million - CORRECTED",
    "Korrektur: Brücke kostet 83 Millionen",
    "Rectificatif : le pont coûte 83 millions",
    "【更正】大桥造价8300万",
    "RPT-CORRECTED-Bridge costs 83 million",
    "AMENDED: Bridge costs 83 million",
    "MANDATORY KILL: Bridge costs 83 million",
    "WITHDRAWN - Bridge costs 83 million",
    "ΔΙΟΡΘΩΣΗ: Η γέφυρα κοστίζει 83 εκατομμύρια",
    "DÜZELTME - Köprü 83 milyona mal oldu",
    "ĐÍNH CHÍNH: Cây cầu trị giá 83 triệu",
    "እርማት፦ ድልድዩ 83 ሚሊዮን",
    "កែតម្រូវ៖ ស្ពាន 83 លាន",
    "[정정] 다리 공사비 8300만",
]
ORDINARY = [
    "Market correction looms",
    "Corrections officer held",
    "Was the umpire correct?",
    "Correction of a map: why",
    "Auto-corrected",
    "Withdrawal symptoms: five signs",
    "",
]


def test_a_headline_is_marked_as_a_correction_only_if_the_mark_is_set_apart() -> None:
    items = [Item("1", headline, "", "a.example", 0) for headline in (*MARKED, *ORDINARY)]
    assert corrections(items).tolist() == [IN_HEADLINE] * len(MARKED) + [0] * len(ORDINARY)


@pytest.mark.parametrize(
    "note",
    [
        "This article was amended on 5 November 2026 to say that it cost 83 million.",
        "(This Nov. 5 story has been corrected to say 83 million, not 38 million)",
        "(Corrects cost in paragraph 4)",
        "(Refiles to fix a name)",
        "CORRECTION — It cost 83 million.",
        "Correction 27 November: It cost 83 million.",
        "Erratum: it cost 83 million.",
        "We have corrected the cost in this report.",
        "Editors: please kill this story.",
        "In einer früheren Fassung stand, sie habe 38 Millionen gekostet.",
        "(Berichtigt im ersten Absatz die Kosten)",
        "Rectificatif du 27 novembre : le pont a coûté 83 millions.",
        "Esta noticia ha sido corregida: el puente costó 83 millones.",
        "Nota di correzione: il ponte è costato 83 milioni.",
        "Sprostowanie: most kosztował 83 miliony.",
        "Oikaisu: silta maksoi 83 miljoonaa.",
        "แก้ไข: สะพานราคา 83 ล้าน",
        "앞선 기사에서 공사비를 잘못 적었습니다.",
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_note_at_either_end_of_the_text_marks_a_correction(note: str, is_first: bool) -> None:
    story = "The bridge over the Elm was opened on Monday by the mayor, after eleven years of work. " * 8
    text = f"{note}\n{story}" if is_first else f"{story}\n{note}"
    assert corrections([Item("1", "Bridge opens", text, "a.example", 0)])[0] == IN_TEXT


@pytest.mark.parametrize(
    "text",
    [
        "The Corrections: a novel about a family. It was filmed twice.",
        "The market saw a correction of five percent. Analysts expect the next version of the index in May.",
        "He corrected the referee. This was the third story about the club.",
    ],
)
def test_ordinary_sentences_are_no_notes(text: str) -> None:
    assert corrections([Item("1", "Bridge opens", text, "a.example", 0)])[0] == 0


def test_a_wire_that_repeats_or_updates_a_story_is_no_correction_of_its_own() -> None:
    items = [
        Item("1", f"{mark}Bridge costs 83 million", "", "a.example", 0) for mark in ("RPT-", "UPDATE 2-", "Update: ")
    ]
    assert corrections(items).tolist() == [NEW_VERSION] * 3


def spelt(expression: str) -> list[str]:
    """All that an expression of corrections.txt matches, with a space for a gap."""
    parts = re.findall(r"(?:\(([^()]*)\)|\[([^\]]*)\]|\\?(.))(\??)", expression.replace("…", " "))
    choices = [
        [*([""] * bool(optional)), *(group.split("|") if group else characters or [one])]
        for group, characters, one, optional in parts
    ]
    whole = map("".join, product(*choices))
    return [each for one in whole for each in (spelt(one) if "?" in one else [one])]


def test_each_note_has_a_word_by_which_the_tokeniser_tells_that_a_text_may_be_a_correction() -> None:
    lines = [line.partition(" ")[2].partition(": ") for line in TABLE.read_text("utf-8").splitlines() if line[0] != "#"]
    expressions = [one for kind, _, listed in lines if kind != "version" for one in listed.split(", ")]
    notes = [note for one in expressions for note in spelt(one)]
    assert len(notes) > 1900 > len(expressions) > 400
    items = [Item("1", "", f"{note}: {'The bridge is open. ' * 100}", "a.example", 0) for note in notes]
    hints = Fingerprinter(Scheme(FingerprintSettings()))(items).hints
    assert hints is not None
    assert [note for note, hint in zip(notes, hints.tolist(), strict=True) if not hint] == []


def test_a_word_of_corrections_far_from_both_ends_of_a_text_is_no_hint() -> None:
    text = "The bridge is open. " * 100
    items = [Item("1", "", each, "a.example", 0) for each in (f"{text} A version. {text}", f"{text} A version.", "")]
    hints = Fingerprinter(Scheme(FingerprintSettings()))(items).hints
    assert hints is not None
    assert hints.tolist() == [False, True, False]


@pytest.mark.parametrize("filler", ["x", "é", "½", "…", "新", "'", "e\u0301", "🌉", "ﷺ", "\u00ad"])
@pytest.mark.parametrize("note", ["Correction: It cost 83 million.", "更正：大桥造价8300万。"])
def test_the_tokeniser_tells_of_each_text_with_a_note_at_an_end(filler: str, note: str) -> None:
    make = Fingerprinter(Scheme(FingerprintSettings()))
    texts = [f"{filler * before}\n{note}\n{filler * after}" for before in range(292, 304) for after in (0, 292, 304)]
    items = [Item("1", "Bridge opens", text, "a.example", 0) for text in texts]
    hints = make(items).hints
    assert hints is not None
    assert corrections(items, hints).tolist() == corrections(items).tolist()
    assert hints.all() == (filler == "ﷺ")  # Python folds it


@pytest.mark.parametrize("before", [0, 1, 299, 300, 301, 600, 5000])
def test_a_note_is_found_wherever_it_lies_at_an_end(before: int) -> None:
    note = "\nCorrection: It cost 83 million."
    text = "x" * before + note
    assert corrections([Item("1", "Bridge opens", text, "a.example", 0)]).tolist() == [IN_TEXT]
