"""`stream-dedup explain A B`: why two items are, or are not, the same article, and whether the later one has news.

In: two items (JSON, files, ids). Out: each stage's numbers and the items side by side, for a person, or JSON. The
computing is done in evaluate/explain.py.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stream_dedup.cli.common import ConfigOption, JsonOption
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import BadItem, InputError

if TYPE_CHECKING:
    from stream_dedup.dedup.figures import Figures
    from stream_dedup.evaluate.explain import Explanation, Novelty
    from stream_dedup.news.decode import Decoder
    from stream_dedup.news.item import Item

# What adds less to the log-odds moves novelty by a hundredth at most.
_TELLING = 0.05
# What stands for the id of an item that has none; one and the same would make the later item a new version.
_WITHOUT_ID = (b"(earlier, without id)", b"(later, without id)")
# A line or two; two texts with more are two texts, and `--json` has all.
_NUMBERS = 12


def explain_command(
    first: Annotated[
        str, typer.Argument(metavar="EARLIER", help="The earlier item: JSON, a file with one JSON item, or an id.")
    ],
    second: Annotated[str, typer.Argument(metavar="LATER", help="The later item, likewise.")],
    corpus: Annotated[
        Path | None, typer.Option("--in", help="File of items, as `filter` reads them, in which ids are looked up.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain one decision: two items, the numbers, and why.

    Shows each view's numbers, each stage's answer, the verdict and its reason, and the items side by side.

    What is new in the later item is told in words of prose, and as novelty with what speaks for and against it.
    """
    from stream_dedup.evaluate.explain import explain
    from stream_dedup.news.decode import Decoder
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    decode = Decoder(settings.item)
    items = _items([first, second], corpus, decode)
    told = explain(items[0], items[1], settings)
    if as_json:
        sys.stdout.write(msgspec.json.encode(told.as_json()).decode() + "\n")
    else:
        _print(items, told)


def _items(names: list[str], corpus: Path | None, decode: "Decoder") -> "list[Item]":
    from stream_dedup.batch.lines import InputLines, is_blank
    from stream_dedup.news.item import Item

    found: dict[str, Item] = {}
    if corpus is not None:
        with InputLines(corpus) as lines:
            for line in lines:
                # An item without an id has its place for one, as in what `filter` and `pairs` write of a single input.
                item = None if is_blank(line) else decode(line, None, None, 0, lines.number)
                if isinstance(item, Item) and item.id in names:
                    found[item.id] = item
                if len(found) == len(set(names)):
                    break
    return [
        found.get(name) or _item(name, corpus, decode, without_id)
        for name, without_id in zip(names, _WITHOUT_ID, strict=True)
    ]


def _item(name: str, corpus: Path | None, decode: "Decoder", without_id: bytes) -> "Item":
    from stream_dedup.news.item import Item

    if name.lstrip().startswith("{"):
        item = decode(name.encode(), without_id, None)
    elif corpus is None and Path(name).is_file():
        item = decode(Path(name).read_bytes(), without_id, None)
    else:
        where = f"in {corpus}" if corpus else "and no such file; name the corpus of an id with --in"
        raise InputError(f"no item {name!r} {where}")
    if isinstance(item, BadItem):
        if item.reason == "json" and not name.lstrip().startswith("{") and _has_items(Path(name)):
            raise InputError(
                f"{name} holds more than one item: name two of them, explain ID ID --in {name}, or a file with one"
            )
        raise InputError(f"item {name[:60]!r} cannot be judged: {item}")
    if not isinstance(item, Item):
        raise InputError(f"item {name[:60]!r} is a tombstone")
    return item


def _has_items(path: Path) -> bool:
    """Whether this is JSON Lines, and not one item over several lines."""
    return sum(line.startswith(b"{") for line in path.read_bytes().splitlines()) > 1


def _print(items: "list[Item]", told: "Explanation") -> None:
    from stream_dedup.cli.side_by_side import harmless, side_by_side

    console = Console(emoji=False, highlight=False)
    for label, item in zip(("earlier", "later"), items, strict=True):
        console.print(
            Text.assemble((f"{label:9}", "bold"), "  ".join(map(harmless, (item.id, item.source, item.title))))
        )
    columns = ("view", "earlier", "later", "shared", "Jaccard", "containment", "estimate", "keys shared")
    table = Table(*columns, box=None, padding=(0, 2, 0, 0), pad_edge=False)  # fits 80 columns
    for view in told.views:
        table.add_row(
            view.name,
            str(view.first),
            str(view.second),
            str(view.shared),
            f"{view.jaccard:.3f}",
            f"{view.containment:.3f}",
            "-" if view.estimate is None else f"{view.estimate:.3f}",
            f"{view.shared_keys} of {view.tables}",
        )
    console.print(table)
    console.print("Sizes are distinct shingles (headline: words). The estimate of the lead is its containment.")
    for name, answer in _answers(items, told):
        console.print(Text(f"{name:24}{harmless(answer)}"))
    verdict = told.verdict
    console.print(Text.assemble((f"{'verdict':24}{verdict.kind}", "bold"), f" (stage: {verdict.stage})"))
    guard = verdict.evidence.guard if verdict.evidence else None
    for why in (verdict.reason, guard):
        if why:
            console.print(Text(f"{'why':24}{harmless(why)}"))
    console.print(side_by_side(told.headline, told.text, console.width))
    if told.text.cut:
        console.print("The texts are too long to be compared to their ends.")


def _answers(items: "list[Item]", told: "Explanation") -> Iterator[tuple[str, str]]:
    """What is no number of a view, as questions and answers."""
    for question, answer in (
        ("same id", told.same_id),
        ("same words throughout", told.same_text),
        ("same source", told.same_source if all(item.source for item in items) else None),
        ("a key in common", any(view.shared_keys for view in told.views)),
    ):
        yield question, "not known, and taken for no" if answer is None else "yes" if answer else "no"
    yield "hours apart", _apart(items, told)
    if told.grounded is not None:
        yield "headline in its text", f"{told.grounded:.0%} of its words, of the better one"
    if any(told.swapped):
        yield "swapped in headlines", " for ".join(", ".join(words) or "-" for words in reversed(told.swapped))
    if told.verdict.evidence and told.verdict.evidence.cut:
        yield "cut", f"the later one is {told.verdict.evidence.cut}"
    for name, compared in (("headline", told.headline), ("text", told.text)):
        if compared.words_alike is not None and compared.characters_alike is not None:
            yield (
                f"edits, {name}",
                f"words: {compared.word_edits} ({compared.words_alike:.1%} alike), "
                f"characters: {compared.character_edits} ({compared.characters_alike:.1%} alike)",
            )
    yield from _figures(told.figures)
    yield "views that say yes", ", ".join(told.speaks_for) or "none"
    yield "guards that say no", "; ".join(told.against.values()) or "none"
    yield "the rule finds", told.finding
    if told.anything_new is not None:
        yield from _novelty(told.anything_new, told.verdict.kind is Kind.UNIQUE)


def _apart(items: "list[Item]", told: "Explanation") -> str:
    first, second = items
    if first.time < 0 or second.time < 0:
        return "not known: without a date they count as written at one time"
    if second.time < first.time:
        hours = (first.time - second.time) / 3_600_000
        return f"{hours:.1f}, but the later one bears the earlier date; judged as if both were written at one time"
    return f"{told.hours_apart:.1f}"


def _figures(found: "Figures") -> Iterator[tuple[str, str]]:
    """What one word in three hundred changes, and no similarity sees."""
    if found.correction:
        yield "says it corrects", f"the later one: {found.correction!r}"
    if found.changed:
        yield "numbers that changed", _some([f"{before} → {after}" for before, after in found.changed])
    for which, numbers in (("earlier", found.first), ("later", found.second)):
        if numbers:
            yield f"numbers only in {which}", _some(numbers)


def _some(found: Sequence[str]) -> str:
    more = f"; and {len(found) - _NUMBERS} more" if len(found) > _NUMBERS else ""
    return "; ".join(found[:_NUMBERS]) + more


def _novelty(found: "Novelty", is_another: bool) -> Iterator[tuple[str, str]]:
    """Whether the later item has anything new, and what says so."""
    from stream_dedup.dedup.rule import meaning_of

    yield "words of prose", f"{found.words:.0f}, new of them {found.new_words:.0f} ({found.new_share:.0%})"
    bound = "not asked of another article" if is_another else f"something new from {found.threshold:.2f}"
    yield "novelty", f"{found.novelty:.2f}; {bound}"
    for question, sign in (("for something new", 1), ("for nothing new", -1)):
        reasons = [f"{meaning_of(name)} ({adds:+.2f})" for name, adds in found.adds.items() if adds * sign > _TELLING]
        yield question, "; ".join(reasons) or "nothing"
