"""`stream-dedup explain A B`: whether the later of two items has something new, and why.

The command takes two items (JSON, files or ids), and prints the numbers behind the verdict and the items side by side,
or JSON. tools/topics/lookup.py finds ids on Kafka; tools/evaluate/explanation.py computes the explanation.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from stream_dedup import cli
from stream_dedup.cli import ConfigOption, option
from stream_dedup.errors import BadItem, InputError, UsageError
from stream_dedup.tools.cli import shared
from stream_dedup.tools.cli.shared import BootstrapOption, JsonOption, argument, print_json
from stream_dedup.tools.terminal import Console, Line, ProgressLine, beside, one_line, print_table, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stream_dedup.news.decode import Decoder
    from stream_dedup.news.item import Item, Tombstone
    from stream_dedup.settings import Settings
    from stream_dedup.tools.evaluate.explanation import Answer, Explanation
    from stream_dedup.tools.marks import Comparison, Passage

_NOWHERE = "and no such file; to look up an id, name its corpus with --in, or the brokers with --bootstrap or --config"
# A feature that adds less to the log-odds changes the probability by .01 at most.
_CLOSE = 0.01  # two digits of a probability that is nearer to its threshold would not tell which is greater
_LEAST_LOG_ODDS = 0.05
# Ids for items without one. They differ, because an item with the same id would be a new version.
_DEFAULT_IDS = (b"(earlier, without id)", b"(later, without id)")
# Words of a common passage that stay beside a difference, to show its place.
_CONTEXT = 6
# Words from each end of a long difference: a paragraph. `--json` has the whole text.
_DIFFERENCE = 60
# Reasons for an answer, the strongest first. `--json` has all.
_MOST_TERMS = 6
# Leaving out fewer words saves nothing.
_LEAST_LEFT_OUT = 6
# About three screens; texts with more differences are unrelated.
_MOST_ROWS = 40


def explain_command(
    first: Annotated[str, argument("EARLIER", "The earlier item: JSON, a file with one JSON item, or an id.")],
    second: Annotated[str, argument("LATER", "The later item, in the same form.")],
    corpus: Annotated[
        tuple[str, ...],
        option("File or directory that has the items with these ids, as for `filter`. Repeatable.", "FILE", "--in"),
    ] = (),
    bootstrap: BootstrapOption = None,
    since: Annotated[
        str | None, option("On Kafka: how far back to look: 90m, 2h, 30d. Default: [window] length.", "DURATION")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain one decision: two items, the numbers, and why.

    Two ids without --in are looked up on Kafka, if the settings or --bootstrap name brokers: in the duplicates and the
    output topic, and an original where the verdict says that it is.

    Shows how similar headlines and bodies are, the keys by which the index finds one item for the other, the verdict,
    and the items side by side.

    It counts the new words, sentences and numbers of the later item. Novelty is the probability that a reader of the
    earlier item would miss something, with the reasons for and against it.
    """
    from stream_dedup.news.decode import Decoder
    from stream_dedup.tools.evaluate.explanation import explain

    if corpus and all(_is_json(name) for name in (first, second)):
        raise UsageError(
            "--in names the file in which ids are looked up, but both items are given as JSON; leave it out"
        )
    names = [first, second]
    settings = cli.settings_of(config, kafka={"bootstrap_servers": bootstrap})
    is_on_kafka = (
        "bootstrap_servers" in settings.kafka.model_fields_set
        and not corpus
        and not any(_is_json(name) or Path(name).is_file() for name in names)
    )
    if not is_on_kafka and (bootstrap or since):
        raise UsageError(
            "--bootstrap and --since are for ids on Kafka: give two ids, no --in, and the brokers with --bootstrap or "
            "--config"
        )
    if is_on_kafka:
        items = _on_kafka(settings, first, second, since)
    else:
        items = _items(names, corpus, Decoder(settings.item), settings.item.query)
    explanation = explain(items[0], items[1], settings)
    if as_json:
        print_json(explanation.as_json())
    else:
        _print(items, explanation)


def _on_kafka(settings: Settings, first: str, second: str, since: str | None) -> list[Item]:
    from stream_dedup.tools.reference import duration
    from stream_dedup.tools.topics.lookup import find_pair

    begin = shared.begin_ms(duration(settings.window.length) if since is None else since)
    with ProgressLine() as status:
        found = find_pair(settings, first, second, begin, lambda read, total: status("looking", read, total))
    console = Console(stderr=True)
    for item, place in found:
        console.print(f"found {one_line(item.id)} at {place}", soft_wrap=True)
    return [item for item, _ in found]


def _items(names: list[str], corpus: tuple[str, ...], decode: Decoder, query: str | None) -> list[Item]:
    from stream_dedup.news.item import Item
    from stream_dedup.tools.inputs.lines import LineReader, item_of
    from stream_dedup.tools.inputs.packing import check_inputs, files_of

    inputs = files_of(corpus)
    check_inputs(inputs)
    items: dict[str, Item] = {}
    last: Item | Tombstone | BadItem | None = None
    for line in LineReader(inputs, query=query):
        # The place stands for a missing id, or for one that names no article, as in the output of `filter`.
        last, where = item_of(decode, line), f"{line.input}:{line.number}"
        if isinstance(last, Item):
            for name in {last.id, where}.intersection(names):
                if items.setdefault(name, last) != last:
                    warn(
                        f"the id {name[:60]!r} occurs again at {inputs[line.input]}:{line.number}; the first item is "
                        f"taken. Its place {where} names this one"
                    )
        if len(items) == len(set(names)):
            break
    place = f"in {', '.join(corpus)}" if corpus else _NOWHERE
    if isinstance(last, BadItem):
        place += f"; its last item cannot be judged: {last}. --config FILE names the fields"
    elif last is not None:
        place += f", whose last item has the id {last.id[:60]!r}"
    return [
        items.get(name) or _item(name, place, decode, default_id, is_id=bool(corpus))
        for name, default_id in zip(names, _DEFAULT_IDS, strict=True)
    ]


def _item(name: str, place: str, decode: Decoder, default_id: bytes, *, is_id: bool) -> Item:
    from stream_dedup.news.item import Item

    is_file = not _is_json(name) and not is_id and Path(name).is_file()
    if not (is_file or _is_json(name)):
        raise InputError(f"no item {name!r} {place}")
    item = decode(Path(name).read_bytes() if is_file else name.encode(), default_id, None)
    if isinstance(item, BadItem):
        more = f"; a file has one item: of one with more name two, explain ID ID --in {name}" if is_file else ""
        raise InputError(f"item {name[:60]!r} cannot be judged: {item}{more}")
    if not isinstance(item, Item):
        raise InputError(f"item {name[:60]!r} is a tombstone")
    return item


def _is_json(name: str) -> bool:
    """Return whether an argument is an item itself, not a file or an id."""
    return name.lstrip().startswith("{")


def _print(items: list[Item], explanation: Explanation) -> None:
    console = Console()
    for label, item in zip(("earlier", "later"), items, strict=True):
        console.print([(f"{label:9}", "bold"), ("  ".join(map(one_line, (item.id, item.source, item.title))), "")])
    views: list[tuple[str | int, ...]] = []
    for view in explanation.views:
        shares = ("-" if share is None else f"{share:.3f}" for share in (view.jaccard, view.containment, view.estimate))
        views.append((view.name, view.first, view.second, view.shared, *shares))
    print_table(console, ("view", "earlier", "later", "shared", "Jaccard", "containment", "estimate"), views)
    console.print("Sizes: distinct shingles (headline: words). The Jaccard is estimated from what is stored.")
    for question, answer in _answers(items, explanation):
        console.print(f"{question:24}{one_line(answer)}")
    verdict = explanation.verdict
    console.print([(f"{'verdict':24}{verdict.kind}", "bold"), (f" (stage: {verdict.stage})", "")])
    if verdict.reason:
        console.print(f"{'why':24}{one_line(verdict.reason)}")
    console.print_lines(side_by_side(explanation.headline, explanation.text, console.width))
    if explanation.text.cut:
        console.print("The texts are too long; only their beginnings are compared.")


def _answers(items: list[Item], explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Yield the findings that are not numbers of a view, as questions and answers."""
    from stream_dedup.tools.marks import Side

    for question, answer in (
        ("same id", explanation.same_id),
        ("same words throughout", explanation.same_text),
        ("same source", explanation.same_source if all(item.source for item in items) else None),
    ):
        yield question, "unknown, counts as no" if answer is None else "yes" if answer else "no"
    if any(explanation.rules):
        rules = (
            f"{label} {rule or 'none'}" for label, rule in zip(("earlier", "later"), explanation.rules, strict=True)
        )
        yield "[sources]", ", ".join(rules)
    yield "keys in common", ", ".join(f"{keys.kind} {keys.shared} of {keys.keys}" for keys in explanation.keys)
    first, second = (item.time for item in items)
    if min(first, second) < 0:
        yield "hours apart", "unknown: without dates they count as published at the same time"
    elif second < first:
        reason = "but the later one has the earlier date; judged as if published at the same time"
        yield "hours apart", f"{(first - second) / 3_600_000:.1f}, {reason}"
    else:
        yield "hours apart", f"{explanation.hours_apart:.1f}"
    if explanation.grounded is not None:
        yield "headline in its text", f"{explanation.grounded:.0%} of its words; the higher of both items"
    if (evidence := explanation.verdict.evidence) and evidence.cut:
        yield "cut", f"the later one is {evidence.cut}"
    for name, compared in (("headline", explanation.headline), ("text", explanation.text)):
        if compared.passages:
            kept, lost, new = (sum(p.words for p in compared.passages if p.where is side) for side in Side)
            yield f"words, {name}", f"{kept:,} in both, {lost:,} in the earlier one alone, {new:,} in the later one"
    if added := explanation.added:
        words = f"{added.new_words:,} of {added.words:,} words, {added.sentences:,} words in new sentences"
        yield "new in its article", f"{words}, {added.new_numbers:,} of {added.numbers:,} numbers"
    if evidence and evidence.adds:
        yield "the update adds", evidence.adds
    if explanation.novelty:
        yield from _model("novelty", "let through", "something new", "nothing new", explanation.novelty)
    if explanation.kinship:
        yield from _model(
            "kinship", "an update, if it is let through,", "the same article", "another article", explanation.kinship
        )


def _model(name: str, yes: str, is_so: str, is_not: str, answer: Answer) -> Iterator[tuple[str, str]]:
    """Yield what a model says, and the reasons for and against it."""
    digits = 2 if abs(answer.probability - answer.threshold) > _CLOSE else 4
    yield name, f"{answer.probability:.{digits}f}; {yes} from {answer.threshold:.2f}"
    for question, sign in ((f"for {is_so}", 1), (f"for {is_not}", -1)):
        terms = [term for term in answer.features if term.adds * sign > _LEAST_LOG_ODDS]
        weaker = terms[_MOST_TERMS:]
        reasons = [f"{term.meaning}{_value(term.value)} ({term.adds:+.2f})" for term in terms[:_MOST_TERMS]]
        reasons += [f"{len(weaker)} weaker ({sum(term.adds for term in weaker):+.2f})"] if weaker else []
        yield question, "; ".join(reasons) or "nothing"


def _value(value: float | None) -> str:
    """Write a count or a share behind what it is of.

    >>> _value(267.0), _value(0.05325), _value(1.0004), _value(None)
    (': 267', ': 0.05', ': 1', '')
    """
    if value is None:
        return ""
    return f": {value:,.0f}" if abs(value) >= 10 else f": {value:.2f}".rstrip("0").rstrip(".")


def side_by_side(headline: Comparison, text: Comparison, width: int) -> Iterator[Line]:
    """Yield the lines of a table in so many columns: the headlines, then the differences of the texts."""
    widths = (width - 2) // 2, (width - 2) // 2
    rule: Line = [("─" * width, "")]
    yield from beside(([("earlier", "bold")], [("later", "bold")]), widths)
    yield rule
    for row in _rows(headline.passages):
        yield from beside(row, widths)
    if headline.passages:
        yield rule
    rows = list(_rows(text.passages))
    for row in rows[:_MOST_ROWS]:
        yield from beside(row, widths)
    if len(rows) > _MOST_ROWS:
        yield [(f"… ({len(rows) - _MOST_ROWS} more places) …", "dim")]


def _rows(passages: list[Passage]) -> Iterator[tuple[Line, Line]]:
    """Yield a row for each difference with its context; a long common passage ends the row."""
    from stream_dedup.tools.marks import Side

    row: tuple[Line, Line] = [], []
    for place, passage in enumerate(passages):
        if passage.where != Side.BOTH:
            side, style = (row[0], "bold red") if passage.where == Side.FIRST else (row[1], "bold green")
            start, end = _shorten(passage.first or passage.second, passage.words, _DIFFERENCE, _DIFFERENCE)
            side.append((f"{start} {end}" if end else start, style))
            continue
        after = _CONTEXT if place + 1 < len(passages) else 0
        before = _CONTEXT if place or not after else 0  # for equal texts, show the beginning
        texts = [_shorten(text, passage.words, before, after) for text in (passage.first, passage.second)]
        for side, (start, _) in zip(row, texts, strict=True):
            side.append((start, "dim"))
        if texts[1][1]:
            if place:
                yield row
                row = [], []
            for side, (_, end) in zip(row, texts, strict=True):
                side.append((end if place else f" {end}", "dim"))
    if any(row):
        yield row


def _shorten(text: str, words: int, first: int, last: int) -> tuple[str, str]:
    """Return the first words of a text, with the number of words left out, and its last words.

    If too few words would be left out, return the whole text and an empty one.
    """
    from stream_dedup.fingerprint.kernel import word_spans

    starts = word_spans(text)[:, 0].tolist() if words > first + last else []  # many passages are short
    left_out = len(starts) - first - last
    if left_out < _LEAST_LEFT_OUT:
        return one_line(text), ""
    start, end = text[: starts[first]] if first else "", text[starts[-last] :] if last else ""
    return f"{one_line(start)}… ({left_out} words) …", one_line(end)
