"""Marked differences: words that the other text lacks, but not those behind its cut end."""

from stream_dedup.observe.differences import Segment, differences

LONG = " ".join(f"word{n}" for n in range(100))


def marked(pieces: tuple[Segment, ...]) -> list[str]:
    return [piece.text.strip() for piece in pieces if piece.differs]


def test_an_added_paragraph_is_marked_and_the_common_text_shortened() -> None:
    original, item = differences(LONG, f"{LONG} And a paragraph of its own.", False, False)
    assert (marked(original), marked(item)) == ([], ["And a paragraph of its own."])
    assert [piece.gap for piece in item] == [76, 0, 0]
    assert item[0].text.startswith("word0 word1")
    assert item[1].text.startswith("word88")


def test_the_same_text_is_shown_without_marks_and_in_full() -> None:
    original, item = differences(LONG, LONG, False, False)
    assert original == item == (Segment(LONG, False),)


def test_words_behind_the_cut_end_of_the_other_text_are_not_marked() -> None:
    words = LONG.split()
    shifted = "An editor's note comes first. " + " ".join(words[:80])
    original, item = differences(LONG, shifted, False, True)
    assert (marked(original), marked(item)) == ([], ["An editor's note comes first."])
    original, _ = differences(LONG, shifted, False, False)
    assert marked(original) == [" ".join(words[80:])], "where nothing was cut it is a difference"


def test_two_empty_texts_have_no_segments() -> None:
    assert differences("", "", False, False) == ((), ())
