"""Which items are held back or let through, and why; judging changes nothing until the batch is applied."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from stream_dedup.dedup.clocks import Odd
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.errors import BadItem, InputError
from stream_dedup.index.hybrid import Found
from stream_dedup.index.probe import ROW_SHIFT
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import load_settings
from tests.dedup.world import DAY, HOUR, judged, kinds, original_of, told

BANK = [
    "The old ferry between the two banks of the Elm was taken out of service on Monday morning.",
    "Engineers had found cracks in the hull during a routine check last week, the town said.",
    "Some four hundred people use the crossing every day to reach the market and the school.",
    "A replacement boat from the coast is expected to arrive before the end of the month.",
    "Until then buses will run every twenty minutes over the northern bridge.",
    "Shopkeepers on the eastern bank fear for their Christmas trade and ask for free parking.",
    "The council will meet on Thursday to discuss the cost, which is put at two million crowns.",
]
FERRY = " ".join(BANK)
OTHER = (
    "Astronomers at the Hill Observatory have measured the rotation of a small asteroid with a new camera. "
    "Its day lasts only ninety seconds, the shortest known, they write. Such a body cannot be a heap of rubble, "
    "because it would fly apart; it must be one solid rock. The camera takes a thousand pictures a second. "
    "Nobody had looked for such short periods before, says the head of the group, since older cameras need a minute "
    "for a single frame. Two amateurs from the valley helped with the search and may now choose a name for it."
)
MENU = " ".join(f"Menu entry {n} section {n * 7} link" for n in range(60))


def item(
    name: str, title: str = "Ferry over the Elm stopped", text: str = FERRY, source: str = "", time: int = 0
) -> Item:
    return Item(name, title, text, source or f"{name}.example", time)


@pytest.fixture
def dedup() -> Deduplicator:
    return Deduplicator()


def run(dedup: Deduplicator, *items: Item | Tombstone | BadItem) -> list[Verdict]:
    return judged(dedup, items)


def test_an_exact_copy_under_another_id_is_held_back(dedup: Deduplicator) -> None:
    first, second = run(dedup, item("a"), item("b", text=FERRY.replace("'", "’").upper()))
    assert (first.kind, second.kind, second.stage) == (Kind.UNIQUE, Kind.DUPLICATE, Stage.EXACT)
    assert original_of(second) == "a"
    assert second.similarity == 1.0


@pytest.mark.parametrize(
    ("what", "one", "other"),
    [
        ("nothing in common", item("a"), item("b", "Asteroid turns in ninety seconds", OTHER)),
        ("only the headline", item("a", "Morning briefing for today"), item("b", "Morning briefing for today", OTHER)),
        (
            "one site's boilerplate under two headlines",
            item("a", "Ferry over the Elm stopped", MENU, "site.example"),
            item("b", "Asteroid turns in ninety seconds", MENU, "site.example"),
        ),
    ],
)
def test_different_articles_pass_although_they_share(dedup: Deduplicator, what: str, one: Item, other: Item) -> None:
    assert kinds(run(dedup, one, other)) == ["unique", "unique"], what


def test_a_template_is_told_by_words_swapped_in_headline_and_text(dedup: Deduplicator) -> None:
    def bulletin(town: str, name: str) -> Item:
        text = (
            f"The warmest December in the history of {town} is behind us. Snow capped roofs are what people dream of, "
            f"but in {town} the mildest day brought seventeen degrees, says the weather service in its yearly list. "
            f"Readers in {town} may send their own pictures of flowers in bloom to the address below."
        )
        return item(name, f"The warmest December in {town} history", text, "weather.example")

    verdicts = run(dedup, bulletin("Millbrook", "a"), bulletin("Pinegrove", "b"))
    assert [verdict.forward for verdict in verdicts] == [True, True]


def test_a_section_s_name_is_no_headline(dedup: Deduplicator) -> None:
    weather = " ".join(f"On day {n} of the week the wind turns to quarter {n * 3} by noon." for n in range(9))
    comedian = (
        " Later a comedian visits the studio and talks about his new tour. He sings two songs from it at the piano. "
        "The tour begins in the harbour hall and ends in the spring on the island. Tickets were sold out within an "
        "hour of the first announcement."
    )
    brigade = (
        " Later the fire brigade shows how to change the battery of a smoke alarm. A caller asks which one fits "
        "a kitchen with a gas stove. The officer warns of cheap devices that failed every test last year. All of them "
        "may be handed in at the station on Friday."
    )

    def page(name: str, text: str, hour: int = 0) -> Item:
        return item(name, "Latest from the newsroom today", text, "site.example", hour * HOUR)

    verdicts = run(
        dedup,
        page("a", OTHER),
        page("b", weather + comedian),
        page("c", weather + brigade, 12),
        page("d", weather + comedian.replace("his new tour", "his tour"), 12),
    )
    assert [one.forward for one in verdicts] == [True, True, True, False]


def test_items_without_a_text_are_decided_by_their_headline(dedup: Deduplicator) -> None:
    long = "Ferry over the Elm stopped after cracks were found"
    titles = [long, f"{long} - Elm Gazette", "Ferry over the Elm stopped after storm warning"]
    verdicts = run(dedup, *(item(f"{n}", title, "") for n, title in enumerate(titles)))
    assert kinds(verdicts) == ["unique", "duplicate", "unique"]


def test_an_item_without_a_letter_or_digit_is_bad(dedup: Deduplicator) -> None:
    verdicts = run(dedup, item("a", "", ""), item("b", "...", "—"), BadItem("json", "cut", "c"))
    assert kinds(verdicts) == ["bad"] * 3
    assert [v.id for v in verdicts] == ["a", "b", "c"]
    assert verdicts[0].reason.startswith("empty")
    assert len(dedup) == 0


@pytest.mark.parametrize(("updates", "forward"), [("compare", True), ("forward", True), ("drop", False)])
def test_a_fuller_version_is_an_update_that_follows_the_policy(updates: str, forward: bool) -> None:
    dedup = Deduplicator(load_settings(policy={"updates": updates}))
    _, second = run(dedup, item("a", text=" ".join(BANK[:2])), item("b", source="a.example"))
    assert (second.kind, second.forward) == (Kind.UPDATE, forward)
    assert original_of(second) == "a"
    assert second.evidence is not None
    assert second.evidence.cut == "longer"


# -- the same id again ---------------------------------------------------------------------------------------


REWRITTEN = (
    " ".join(BANK[:2])
    + " The boat was raised by a crane in the evening, and nobody was hurt in the work. Divers then found "
    "a second crack below the water line, four metres long. The mayor wants to sell it and build a footbridge by 2027."
)


@pytest.mark.parametrize(
    ("policy", "text", "kind", "forward"),
    [
        ("compare", REWRITTEN, Kind.UPDATE, True),
        ("compare", FERRY.replace("twenty minutes", "20 minutes"), Kind.DUPLICATE, False),
        ("compare", " ".join(BANK[:4]), Kind.DUPLICATE, False),  # a part of the old text has nothing new
        ("compare", FERRY + " " + OTHER, Kind.UPDATE, True),
        ("forward", FERRY.replace("twenty minutes", "20 minutes"), Kind.UPDATE, True),
        ("drop", REWRITTEN, Kind.UPDATE, False),
    ],
)
def test_a_new_version_follows_the_policy(policy: str, text: str, kind: Kind, forward: bool) -> None:
    dedup = Deduplicator(load_settings(policy={"updates": policy}))
    _, second = run(dedup, item("a"), item("a", text=text))
    assert (second.kind, second.forward) == (kind, forward)


def test_a_forwarded_update_takes_the_place_of_its_original(dedup: Deduplicator) -> None:
    verdicts = run(dedup, item("a"), item("a", text=OTHER, title="Asteroid"), item("b"), item("c", "Asteroid", OTHER))
    assert kinds(verdicts) == ["unique", "update", "unique", "duplicate"]
    assert original_of(verdicts[3]) == "a"


# -- tombstones ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [True, False])
def test_a_tombstone_is_forwarded_and_its_original_forgotten(dedup: Deduplicator, together: bool) -> None:
    items = [item("a"), Tombstone("a", 1), item("b"), Tombstone("nobody", 2)]
    verdicts = dedup.judge(items).verdicts if together else run(dedup, *items)
    assert kinds(verdicts) == ["unique", "tombstone", "unique", "tombstone"]
    assert all(v.forward for v in verdicts)


# -- the window ----------------------------------------------------------------------------------------------


def test_an_original_is_forgotten_after_the_window(dedup: Deduplicator) -> None:
    times = [0, 7 * DAY, 7 * DAY + 1, 8 * DAY]  # the second is the last moment in the window of the first
    verdicts = run(dedup, *(item(f"{time}", time=time) for time in times))
    assert kinds(verdicts) == ["unique", "duplicate", "unique", "duplicate"]


def test_an_item_without_a_time_or_from_the_future_counts_as_of_its_partitions_level(dedup: Deduplicator) -> None:
    batch = dedup.judge(
        [
            item("a", time=DAY),
            item("x", "Asteroid", OTHER, time=900 * DAY),
            item("y", "Other", MENU, time=-1),
            item("b", time=2 * DAY),
        ],
        latest=3 * DAY,
    )
    assert kinds(batch.verdicts) == ["unique", "unique", "unique", "duplicate"]
    assert batch.delta.signatures["time"].tolist()[:3] == [DAY] * 3
    assert [Odd(one) for one in batch.odd] == [Odd.NOTHING, Odd.FUTURE, Odd.MISSING, Odd.NOTHING]


# -- determinism ---------------------------------------------------------------------------------------------


def test_what_is_prepared_elsewhere_and_judged_late_gives_the_same_verdicts(dedup: Deduplicator) -> None:
    batches = [
        [item("a"), BadItem("json", "broken"), item("b", time=-1)],
        [item("c", "Ferry over the Elm stopped - Elm Gazette", time=9 * DAY), Tombstone("a", -1)],
        [item("d", time=-1), item("e", "", "")],
    ]
    with ThreadPoolExecutor(2) as pool:
        ahead = list(pool.map(dedup.prepare, batches))
    other = Deduplicator()
    for items, prepared in zip(batches, ahead, strict=True):
        expected = other.judge(items, latest=10 * DAY)
        assert dedup.judge(prepared, latest=10 * DAY).verdicts == expected.verdicts
        batch = dedup.judge(prepared, latest=10 * DAY)  # judging did not change `prepared`
        assert batch.verdicts == expected.verdicts
        assert batch.delta.signatures.tobytes() == expected.delta.signatures.tobytes()
        for one in (dedup, other):
            one.apply(batch)


def test_what_restored_blocks_forget_is_forgotten_in_their_order() -> None:
    """A restore applies deletions only at its end; an item that was added again later must stay."""
    text = "The bridge over the Elm opened on Monday after two years of work, the mayor said at noon."
    gone, kept = (
        Item("1", "Elm bridge opens", text, "a.example", 0),
        Item("2", "Rain", "It rained. " * 9, "a.example", 1),
    )
    steps: list[list[Item | Tombstone]] = [[gone, kept], [Tombstone("1", 2)], [gone], [Tombstone("2", 3)]]
    live, restored, settling = Deduplicator(load_settings(index={"bucket_limit": 1})), Deduplicator(), Deduplicator()
    for step in steps:
        batch = live.judge(step)
        live.apply(batch)
        restored.restore(batch.delta)
        settling.restore(batch.delta)
        settling.catch_up()
    for one in (live, restored, settling):
        verdicts = one.judge(
            [msgspec.structs.replace(gone, id="3", source="b.example"), msgspec.structs.replace(kept, id="4")]
        ).verdicts
        assert told(verdicts) == [("duplicate", "1"), ("unique", None)]
        one.close()


@pytest.mark.parametrize(
    "wrong", [1 << ROW_SHIFT, 1 << 31 << ROW_SHIFT, (1 << ROW_SHIFT) - 1], ids=["next", "far", "key"]
)
def test_a_row_that_is_not_remembered_is_refused(wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dedup = Deduplicator()
    dedup.apply(dedup.judge([item("1")]))
    find = dedup.index.find

    def damaged(*arguments: Any) -> Found:
        found = find(*arguments)
        return found._replace(words=found.words + wrong)

    monkeypatch.setattr(dedup.index, "find", damaged)
    with pytest.raises(InputError, match="does not fit its data"):
        dedup.judge([item("2")])
