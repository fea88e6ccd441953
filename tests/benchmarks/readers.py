"""Compare our verdicts with human labels, beside plain Jaccard similarity and RETSim.

In: a folder with corpora (NAME.jsonl.gz, in order of time) and label files of pairs of news that people judged. Out:
the figures of two questions for each corpus and rule. A pair's weight is the number of items that it represents.

- Is the later item the same article (pairs without `new`)? `recall` and `precision` of the rule.
- Would a reader of the earlier item miss something (pairs with `new`)? `missed`: the share of the items held back that
  have something new or are another article. `repeated`: the share let through of the items that repeat an article.

The corpus `all` has the pairs of all corpora. Every rule gets title and text as our decoder reads them, without markup.
Ours judges the whole corpus, so another original than the pair's may hold an item back or be named by an update. Both
count as the same article; only items held back count for the second question.

Two choices favour the other rules: they see the labelled pair alone, so no other item can make them hold back wrongly;
and RETSim's threshold is the best one for the labels of the first corpus. One favours ours: the pairs of the second
question were sampled from items that an earlier version of ours held back or nearly did, so items that only another
rule would hold back are missing.

Costs: ours from the line to the verdict, the mean of all items; RETSim's to embed a labelled text, without a search.
"""

import json
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from stream_dedup.batch.judge import judge_lines
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import InputError
from stream_dedup.evaluate.labels import Label, by_first_delivery, read_labels
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from tests.benchmarks import apart
from tests.labels.files import MEASURED, SAME_FILES, as_read_again, read_corpus

# The usual threshold of near-duplicate detection by MinHash.
_JACCARD = 0.8
_WORD, _IDEOGRAPH = re.compile(r"\w+"), re.compile(r"[\u3400-\u9fff]")


class RuleResult(NamedTuple):
    """A rule's result for the later item: whether it is the same article, and whether it is held back."""

    same: bool
    held_back: bool


LabelledResults = Sequence[tuple[Label, RuleResult]]


# -- figures of a rule's results ----------------------------------------------------------------------------


def rates(results: LabelledResults) -> dict[str, float]:
    """Return recall, precision, missed and repeated; a rate without pairs is absent.

    >>> rates([(Label("a", "b", "copy"), RuleResult(True, True)), (Label("a", "c", "cut"), RuleResult(False, False))])
    {'recall': 0.5, 'precision': 1.0}
    """
    first_question = [(pair, result) for pair, result in results if pair.new is None]
    # Another page without an article of its own (a login form) is neither worth showing nor a repetition.
    second_question = [(pair, result) for pair, result in results if pair.new and (pair.same or pair.new == "yes")]
    figures = {
        "recall": _share((pair.weight, result.same) for pair, result in first_question if pair.same),
        "precision": _share((pair.weight, pair.same) for pair, result in first_question if result.same),
        "missed": _share((pair.weight, pair.new == "yes") for pair, result in second_question if result.held_back),
        "repeated": _share(
            (pair.weight, not result.held_back) for pair, result in second_question if pair.new != "yes"
        ),
    }
    return {name: value for name, value in figures.items() if value is not None}


def best_threshold(pairs: Sequence[Label], scores: Sequence[float]) -> float:
    """Return the threshold on scores with the best weighted F1 of "the same article"; among equals the highest.

    >>> best_threshold([Label("a", "b", "copy"), Label("a", "c", "cut"), Label("a", "d", "template")], [0.9, 0.7, 0.6])
    0.7
    """

    def f1(threshold: float) -> float:
        selected = sum(pair.weight for pair, score in zip(pairs, scores, strict=True) if score >= threshold)
        hit = sum(pair.weight for pair, score in zip(pairs, scores, strict=True) if score >= threshold and pair.same)
        return 2 * hit / (selected + sum(pair.weight for pair in pairs if pair.same))

    return max(set(scores), key=lambda threshold: (f1(threshold), threshold))


def figures_of(rule: str, results: LabelledResults) -> dict[str, float]:
    """Return `readers_MEASURE_RULE_CORPUS` of each corpus, and of all corpora as `all`."""
    by_corpus: dict[str, list[tuple[Label, RuleResult]]] = defaultdict(list)
    for result in results:
        by_corpus[str(result[0].corpus)].append(result)
    return {
        f"readers_{measure}_{rule}_{corpus}": value
        for corpus, subset in [*by_corpus.items(), ("all", results)]
        for measure, value in rates(subset).items()
    }


def _share(weights: Iterable[tuple[float, bool]]) -> float | None:
    """Return the share of the weight that is True; None without weight."""
    weighted = list(weights)
    total = sum(weight for weight, _ in weighted)
    return sum(weight for weight, is_true in weighted if is_true) / total if total else None


# -- similarity of texts -------------------------------------------------------------------------------------


def shingles(text: str) -> frozenset[str]:
    """Return the 3-shingles of lower-case words; if most letters are ideographs, the 5-shingles of characters.

    >>> sorted(shingles("The Elm bridge opens.")), sorted(shingles("榆河大桥通车。"))
    (['elm bridge opens', 'the elm bridge'], ['榆河大桥通', '河大桥通车'])
    """
    words: Sequence[str] = _WORD.findall(text.lower())
    length, separator = 3, " "
    letters = "".join(words)
    if 2 * len(_IDEOGRAPH.findall(letters)) > len(letters):
        words, length, separator = letters, 5, ""
    return frozenset(separator.join(words[i : i + length]) for i in range(max(1, len(words) - length + 1)))


def jaccard(left: str, right: str) -> float:
    """Return the Jaccard similarity of the shingles of two texts.

    >>> jaccard("The Elm bridge opens.", "the elm bridge opens today")
    0.6666666666666666
    """
    left_shingles, right_shingles = shingles(left), shingles(right)
    return len(left_shingles & right_shingles) / len(left_shingles | right_shingles)


# -- pairs, verdicts and texts of files ----------------------------------------------------------------------


def missing_files(folder: Path) -> str | None:
    """Return a message that names the label files missing in the folder; None if it has all."""
    absent = [name for name in [*SAME_FILES, *map(str, MEASURED)] if not (folder / name).is_file()]
    return f"{folder} has no {', '.join(absent)}" if absent else None


def read_pairs(folder: Path) -> list[Label]:
    """Read the pairs of all label files; those of the first question, which name no corpus, come first."""
    pairs = [
        msgspec.structs.replace(pair, corpus=corpus)
        for name, corpus in SAME_FILES.items()
        for pair in read_labels(folder / name)
    ]
    return as_read_again([*pairs, *(pair for name in MEASURED for pair in read_labels(folder / name))])


@dataclass(frozen=True, slots=True)
class _Judged:
    """Our results on a corpus: verdicts by id in file order, the texts of the labelled items, and the seconds."""

    verdicts: dict[str, Verdict]
    texts: dict[str, str]
    seconds: float


def _judge_corpus(path: Path, pairs: Sequence[Label]) -> _Judged:
    settings, lines = load_settings(), read_corpus(path)
    start = time.perf_counter()
    verdicts = by_first_delivery(judge_lines(lines, settings))
    seconds = time.perf_counter() - start
    wanted_ids, decode = {name for pair in pairs for name in (pair.earlier, pair.later)}, Decoder(settings.item)
    items = [item for line in lines if isinstance(item := decode(line, None, None), Item) and item.id in wanted_ids]
    order = {name: index for index, name in enumerate(verdicts)}
    for pair in pairs:
        if not order.get(pair.earlier, len(order)) < order.get(pair.later, -1):
            raise InputError(f"{path} has no {pair.later} after {pair.earlier}; labels and corpus must belong together")
    return _Judged(verdicts, {item.id: f"{item.title} {item.text}" for item in items}, seconds)


def _retsim(python: Path, texts: Sequence[tuple[str, str]]) -> tuple[float, list[float]]:
    """Embed the texts with RETSim; return the seconds a text and the cosine similarity of each pair."""
    index: dict[str, int] = {}
    index_pairs = [[index.setdefault(text, len(index)) for text in pair_texts] for pair_texts in texts]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "texts.json"
        path.write_text(json.dumps({"texts": list(index), "pairs": index_pairs}), "utf-8")
        result = apart.run(python, "retsim", str(path))
    return result["seconds"], result["cosines"]


def measure_readers(folder: Path, unisim: Path | None, report: Callable[[str], object] = print) -> dict[str, float]:
    """Return `readers_MEASURE_RULE_CORPUS`, numbers of pairs, the threshold and costs. `unisim`: RETSim's Python.

    Raises InputError if a file is missing, or names items that its corpus does not have.
    """
    pairs = read_pairs(folder)
    corpora = dict.fromkeys(str(pair.corpus) for pair in pairs)
    _judge_corpus(folder / f"{next(iter(corpora))}.jsonl.gz", [])  # loads kernels, warms caches
    judged = {}
    for corpus in corpora:
        report(f"Judging {corpus} ...")
        judged[corpus] = _judge_corpus(folder / f"{corpus}.jsonl.gz", [pair for pair in pairs if pair.corpus == corpus])
    ours = []
    for pair in pairs:
        verdict = judged[str(pair.corpus)].verdicts[pair.later]
        ours.append(RuleResult(not verdict.forward or verdict.kind is Kind.UPDATE, not verdict.forward))
    texts_of = [judged[str(pair.corpus)].texts for pair in pairs]
    texts = [(of[pair.earlier], of[pair.later]) for of, pair in zip(texts_of, pairs, strict=True)]
    jaccard_matches = [jaccard(*pair_texts) >= _JACCARD for pair_texts in texts]
    seconds = sum(corpus.seconds for corpus in judged.values()) / sum(
        len(corpus.verdicts) for corpus in judged.values()
    )

    figures: dict[str, float] = {"readers_us_ours": seconds * 1e6}
    rules = {"ours": ours, "jaccard": [RuleResult(match, match) for match in jaccard_matches]}
    if unisim:
        report(f"Embedding the texts of {len(pairs)} pairs ...")
        retsim_seconds, cosines = _retsim(unisim, texts)
        first = sum(pair.new is None and pair.corpus == pairs[0].corpus for pair in pairs)
        threshold = best_threshold(pairs[:first], cosines[:first])
        rules["retsim"] = [RuleResult(cosine >= threshold, cosine >= threshold) for cosine in cosines]
        figures |= {
            "readers_us_retsim": retsim_seconds * 1e6,
            "readers_vs_retsim": retsim_seconds / seconds,
            "readers_threshold_retsim": threshold,
        }
    for corpus in corpora:
        subset = [pair for pair in pairs if pair.corpus == corpus]
        figures[f"readers_pairs_same_{corpus}"] = sum(pair.new is None for pair in subset)
        figures[f"readers_pairs_new_{corpus}"] = sum(pair.new is not None for pair in subset)
    for rule, results in rules.items():
        figures |= figures_of(rule, list(zip(pairs, results, strict=True)))
    return figures
