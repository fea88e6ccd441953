"""Does a reader agree? Ours beside plain Jaccard and RETSim, on pairs of news that people judged.

In: a folder with corpora (NAME.jsonl.gz, in order of time) and label files. Out: for each corpus and rule, two
questions' figures, weighted by the items of the corpus that a pair stands for:

- Is the later one the same article (pairs without `new`)? `recall` and `precision` of what the rule finds.
- Would a reader of the earlier one miss something (pairs with `new`)? `missed`: of what is held back, the share that
  has something new or is another article. `repeated`: of what repeats an article, the share that is let through.

`all` is the pairs of all corpora together. Every rule gets title and text as our decoder reads them, without markup.
Ours judges the whole corpus, so another original than the pair's may hold an item back or be named by an update; both
count as found, and only what is held back counts for the second question. The other rules look at the labelled pair
alone: a favour, for no other item can make them hold back wrongly. RETSim's threshold is the best one for the first
corpus' labels, another favour. The pairs of the second question were drawn from what an earlier version of ours held
back or nearly did, so what only another rule would hold back is not among them.

Costs: ours from the line to the verdict, mean of all items; RETSim's to embed a labelled text, without any search.
"""

import json
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from stream_dedup.batch.judge import judge_lines
from stream_dedup.batch.lines import read_lines
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import InputError
from stream_dedup.evaluate.labels import SAME_ARTICLE
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from tests.benchmarks import apart

# Label files of the first question and the corpus of each; by the first one RETSim's threshold is chosen.
SAME_FILES = {
    "webz_en_pair_labels.jsonl": "webz_en_2023-12_2024-01",
    "webz_en_2025_pair_labels.jsonl": "webz_en_2025",
    "webz_zh_pair_labels.jsonl": "webz_zh_2025-03_2025-06",
}
# Label files of the second question, of several corpora each; one is the project's own.
NEW_FILES = ("reader_labels.jsonl", Path(__file__).parents[1] / "labels" / "reader_pairs.jsonl")
# What near-duplicate detection by MinHash is usually set to.
_JACCARD = 0.8
_WORD, _IDEOGRAPH = re.compile(r"\w+"), re.compile(r"[\u3400-\u9fff]")


class Pair(msgspec.Struct, frozen=True):
    """Two items that a person read. `new`: has the later one something that a reader of the earlier would miss?"""

    earlier: str
    later: str
    label: Literal["copy", "cut", "update", "template", "furniture", "different"]
    weight: float = 1.0
    new: Literal["yes", "no", "little"] | None = None
    corpus: str = ""

    @property
    def same(self) -> bool:
        return self.label in SAME_ARTICLE


class Found(NamedTuple):
    """What a rule says of the later item: it is the same article, and it is held back."""

    same: bool
    held: bool


Answers = Sequence[tuple[Pair, Found]]


# -- pairs and what a rule says of them -> figures ----------------------------------------------------------


def rates(answers: Answers) -> dict[str, float]:
    """recall, precision, missed, repeated; a rate of nothing is absent.

    >>> rates([(Pair("a", "b", "copy"), Found(True, True)), (Pair("a", "c", "cut"), Found(False, False))])
    {'recall': 0.5, 'precision': 1.0}
    """
    old = [(pair, found) for pair, found in answers if pair.new is None]
    # What is another article, but has none of its own (a login form), is neither worth showing nor a repetition.
    new = [(pair, found) for pair, found in answers if pair.new and (pair.same or pair.new == "yes")]
    figures = {
        "recall": _share((pair.weight, found.same) for pair, found in old if pair.same),
        "precision": _share((pair.weight, pair.same) for pair, found in old if found.same),
        "missed": _share((pair.weight, pair.new == "yes") for pair, found in new if found.held),
        "repeated": _share((pair.weight, not found.held) for pair, found in new if pair.new != "yes"),
    }
    return {name: value for name, value in figures.items() if value is not None}


def best_threshold(pairs: Sequence[Pair], scores: Sequence[float]) -> float:
    """The score from which on "the same article" has the best weighted F1; of several the highest.

    >>> best_threshold([Pair("a", "b", "copy"), Pair("a", "c", "cut"), Pair("a", "d", "template")], [0.9, 0.7, 0.6])
    0.7
    """

    def f1(threshold: float) -> float:
        found = sum(pair.weight for pair, score in zip(pairs, scores, strict=True) if score >= threshold)
        hit = sum(pair.weight for pair, score in zip(pairs, scores, strict=True) if score >= threshold and pair.same)
        return 2 * hit / (found + sum(pair.weight for pair in pairs if pair.same))

    return max(set(scores), key=lambda threshold: (f1(threshold), threshold))


def figures_of(rule: str, answers: Answers) -> dict[str, float]:
    """`readers_MEASURE_RULE_CORPUS`, and of all corpora together."""
    by_corpus: dict[str, list[tuple[Pair, Found]]] = defaultdict(list)
    for answer in answers:
        by_corpus[answer[0].corpus].append(answer)
    return {
        f"readers_{measure}_{rule}_{corpus}": value
        for corpus, some in [*by_corpus.items(), ("all", answers)]
        for measure, value in rates(some).items()
    }


def _share(weights: Iterable[tuple[float, bool]]) -> float | None:
    """Of the weight that stands there, how much is True."""
    given = list(weights)
    whole = sum(weight for weight, _ in given)
    return sum(weight for weight, is_so in given if is_so) / whole if whole else None


# -- texts -> their likeness ---------------------------------------------------------------------------------


def shingles(text: str) -> frozenset[str]:
    """Lower-cased words by three; where most letters are ideographs, characters by five.

    >>> sorted(shingles("The Elm bridge opens.")), sorted(shingles("榆河大桥通车。"))
    (['elm bridge opens', 'the elm bridge'], ['榆河大桥通', '河大桥通车'])
    """
    words: Sequence[str] = _WORD.findall(text.lower())
    length, joint = 3, " "
    letters = "".join(words)
    if 2 * len(_IDEOGRAPH.findall(letters)) > len(letters):
        words, length, joint = letters, 5, ""
    return frozenset(joint.join(words[i : i + length]) for i in range(max(1, len(words) - length + 1)))


def jaccard(one: str, other: str) -> float:
    """
    >>> jaccard("The Elm bridge opens.", "the elm bridge opens today")
    0.6666666666666666
    """
    a, b = shingles(one), shingles(other)
    return len(a & b) / len(a | b)


# -- files -> pairs, verdicts, texts -------------------------------------------------------------------------


def missing(folder: Path) -> str | None:
    """Which label files the folder does not have, in a line; None where all are there."""
    absent = [name for name in [*SAME_FILES, *map(str, NEW_FILES)] if not (folder / name).is_file()]
    return f"{folder} has no {', '.join(absent)}" if absent else None


def read_pairs(path: Path, corpus: str = "") -> list[Pair]:
    """The pairs of a label file; `corpus`: whose they are, where the file does not say so."""
    decode = msgspec.json.Decoder(Pair).decode
    pairs = []
    for number, line in enumerate(read_lines(path), 1):
        try:
            pair = decode(line)
        except msgspec.DecodeError as error:
            raise InputError(f"{path}, line {number}: not a labelled pair: {error}") from None
        pairs.append(pair if pair.corpus else msgspec.structs.replace(pair, corpus=corpus))
    return pairs


@dataclass(frozen=True, slots=True)
class _Judged:
    """A corpus, judged: verdicts by id in the order of the file, texts of the items that were asked for."""

    verdicts: dict[str, Verdict]
    texts: dict[str, str]
    seconds: float


def _judge(path: Path, pairs: Sequence[Pair]) -> _Judged:
    settings, lines = load_settings(), list(read_lines(path))
    start = time.perf_counter()
    verdicts = {verdict.id: verdict for verdict in judge_lines(lines, settings)}
    seconds = time.perf_counter() - start
    wanted, decode = {name for pair in pairs for name in (pair.earlier, pair.later)}, Decoder(settings.item)
    items = [item for line in lines if isinstance(item := decode(line, None, None), Item) and item.id in wanted]
    order = {name: place for place, name in enumerate(verdicts)}
    for pair in pairs:
        if not order.get(pair.earlier, len(order)) < order.get(pair.later, -1):
            raise InputError(f"{path} has no {pair.later} after {pair.earlier}; labels and corpus must belong together")
    return _Judged(verdicts, {item.id: f"{item.title} {item.text}" for item in items}, seconds)


def _retsim(python: Path, texts: Sequence[tuple[str, str]]) -> tuple[float, list[float]]:
    """Seconds a text, and the cosine of each two texts."""
    place: dict[str, int] = {}
    pairs = [[place.setdefault(text, len(place)) for text in two] for two in texts]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "texts.json"
        path.write_text(json.dumps({"texts": list(place), "pairs": pairs}), "utf-8")
        found = apart.run(python, "retsim", str(path))
    return found["seconds"], found["cosines"]


def measure_readers(folder: Path, unisim: Path | None, say: Callable[[str], object] = print) -> dict[str, float]:
    """Figures `readers_MEASURE_RULE_CORPUS`, numbers of pairs, the threshold, costs. `unisim`: the Python that has it.

    Raises InputError if a file is missing, or names items that its corpus does not have.
    """
    pairs = [pair for name, corpus in SAME_FILES.items() for pair in read_pairs(folder / name, corpus)]
    pairs += [pair for name in NEW_FILES for pair in read_pairs(folder / name)]
    corpora = dict.fromkeys(pair.corpus for pair in pairs)
    _judge(folder / f"{next(iter(corpora))}.jsonl.gz", [])  # compiled kernels are loaded, caches are warm
    judged = {}
    for corpus in corpora:
        say(f"Judging {corpus} ...")
        judged[corpus] = _judge(folder / f"{corpus}.jsonl.gz", [pair for pair in pairs if pair.corpus == corpus])
    ours = []
    for pair in pairs:
        verdict = judged[pair.corpus].verdicts[pair.later]
        ours.append(Found(not verdict.forward or verdict.kind is Kind.UPDATE, not verdict.forward))
    texts = [(judged[pair.corpus].texts[pair.earlier], judged[pair.corpus].texts[pair.later]) for pair in pairs]
    alike = [jaccard(*two) >= _JACCARD for two in texts]
    seconds = sum(one.seconds for one in judged.values()) / sum(len(one.verdicts) for one in judged.values())

    figures: dict[str, float] = {"readers_us_ours": seconds * 1e6}
    rules = {"ours": ours, "jaccard": [Found(one, one) for one in alike]}
    if unisim:
        say(f"Embedding the texts of {len(pairs)} pairs ...")
        retsim_seconds, cosines = _retsim(unisim, texts)
        first = sum(pair.new is None and pair.corpus == pairs[0].corpus for pair in pairs)
        threshold = best_threshold(pairs[:first], cosines[:first])
        rules["retsim"] = [Found(one >= threshold, one >= threshold) for one in cosines]
        figures |= {
            "readers_us_retsim": retsim_seconds * 1e6,
            "readers_vs_retsim": retsim_seconds / seconds,
            "readers_threshold_retsim": threshold,
        }
    for corpus in corpora:
        some = [pair for pair in pairs if pair.corpus == corpus]
        figures[f"readers_pairs_same_{corpus}"] = sum(pair.new is None for pair in some)
        figures[f"readers_pairs_new_{corpus}"] = sum(pair.new is not None for pair in some)
    for rule, found in rules.items():
        figures |= figures_of(rule, list(zip(pairs, found, strict=True)))
    return figures
