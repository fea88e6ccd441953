"""Make stream_dedup/fingerprint/words.txt: number words and negations of the languages of news.

    python -m docs.words CLDR UD FREQUENCIES

CLDR: a git directory of unicode-org/cldr-json (Unicode License v3), whose spell-out rules give the number words.
UD: one of UniversalDependencies/docs (Apache License 2.0), whose statistics of `Polarity` and `PronType` name the most
frequent negations of each treebank, and those of other parts of speech the words that a number word of another language
looks like ("on" is ten in Turkish): such a word is left out.
FREQUENCIES: one of hermitdave/FrequencyWords (CC BY-SA 4.0), which counts the words of subtitles. It only tells which
words of one language are common in another, where they mean something else ("nach" denies in Irish).
"""

import json
import re
import subprocess
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from stream_dedup.fingerprint.characters import fold

OUT = Path(__file__).parents[1] / "stream_dedup/fingerprint/words.txt"
LANGUAGES = frozenset(
    re.findall(
        r"\S+",
        "af am ar az be bg bn bs ca cs cy da de el en es et eu fa fi fil fr ga gl gu ha he hi hr hu hy id is it ja ka "
        "kk km ko ky lo lt lv mk ml mr ms mt my nb ne nl nn no pa pl pt ro ru sk sl sq sr sr-Latn sv sw ta te th tl tr "
        "uk ur uz vi zh",
    )
)
# What follows another number and multiplies it; 1,000 and more have a word of their own in most languages.
POWERS = (100, 1000, 10**5, 10**6, 10**7, 10**9)
HEADER = """\
# Number words, each line behind their value, and negations behind "-", folded. Made by docs/words.py.
# Number words: spell-out rules of Unicode CLDR {cldr} (Unicode License v3, https://www.unicode.org/license.txt).
# Negations: statistics of Universal Dependencies (Apache License 2.0, https://github.com/UniversalDependencies/docs).
"""
_NEGATIVE = ("ADV", "AUX", "CCONJ", "DET", "INTJ", "PART", "PRON", "SCONJ", "VERB")
_CLOSED = ("ADP", "ADV", "AUX", "CCONJ", "DET", "PART", "PRON", "SCONJ", "VERB")
# A word is common from this share of all words on. What is common in another language is left out if it is so many
# times as frequent there as in its own.
_COMMON, _FOR_NUMBERS, _FOR_NEGATIONS = 1.5e-4, 10, 4 / 3
_LISTED = 3000  # words of a language that are that common, and more
# Names of the lists for languages of LANGUAGES.
_LISTS = {"nb": "no", "nn": "no", "fil": "tl", "sr-Latn": "sr"}
# What denies nothing by itself, though a treebank calls it negative; what is a number in one phrase only ("one
# thousand"); and what the lists do not tell: "there" of German is a four of Turkish, and in Nepali, which has no list,
# "is" is a six and "vote" a "don't" of Hindi.
_OTHERS = frozenset(
    ["dort", "hindi", "know", "mitte", "one", "point", "sa", "solo", "как", "одна", "однои", "одну", "छ", "मत"]
)
_PART = re.compile(r"\$\([^$]*\)\$|([←→=])([^←→=]*)([←→=])→?|\[([^\]]*)\]")


class Rules:
    """Spell-out rules of one language; see Unicode Technical Standard 35, part 3, "Rule-Based Number Formatting"."""

    def __init__(self, sets: dict[str, list[list[str]]]) -> None:
        self.sets: dict[str, list[tuple[int, int, str]]] = {}
        for name, rules in sets.items():
            keys = [(re.fullmatch(r"(\d+)(?:/(\d+))?", key), body) for key, body in rules]
            self.sets[name] = [(int(key[1]), int(key[2] or 10), body) for key, body in keys if key]

    def spell(self, name: str, number: int) -> str:
        """The number in words. Raises KeyError or ValueError where a rule is not one of whole numbers."""
        base, radix, body = max(rule for rule in self.sets[name] if rule[0] <= number)
        divisor = 1
        while divisor * radix <= base:
            divisor *= radix
        return self._written(body.rstrip(";").removeprefix("'"), name, number, divisor)

    def _written(self, body: str, name: str, number: int, divisor: int) -> str:
        def part(found: re.Match[str]) -> str:
            arrow, other, _, optional = found.groups()
            if optional is not None:
                return self._written(optional, name, number, divisor) if number % divisor else ""
            if arrow is None:
                return ""
            if "#" in other or "0" in other:
                raise ValueError(other)
            return self.spell(other or name, {"←": number // divisor, "→": number % divisor, "=": number}[arrow])

        return _PART.sub(part, body)


def number_words(rules: Rules) -> Iterable[tuple[str, int]]:
    """Each number word of one piece, with its value. "One" is left out: it is an article in many languages."""
    for name in rules.sets:
        if not re.match(r"%spellout-(cardinal|numbering)(?!-year)", name):
            continue
        for number in (0, *range(2, 101), *POWERS):
            yield from _spelt(rules, name, number, number)
        for power in POWERS:
            for count in (1, 2, 5):  # "two million", and the plurals of Slavic languages
                lead = dict(_spelt(rules, name, count, 0))
                for text, _ in _spelt(rules, name, count * power, power):
                    first, _, rest = text.partition(" ")
                    if first in lead and rest:
                        yield rest, power


def _spelt(rules: Rules, name: str, number: int, value: int) -> Iterable[tuple[str, int]]:
    try:
        yield " ".join(rules.spell(name, number).replace("\u00ad", "").lower().split()), value
    except (KeyError, ValueError, RecursionError):
        return


def is_word(text: str) -> bool:
    """Whether a text is one word: letters and marks, perhaps an apostrophe."""
    return text != "" and all(unicodedata.category(c)[0] in "LM" or c in "'’" for c in text)


def listed(line: str) -> list[str]:
    """The words of a list in a page of statistics, the most frequent first."""
    return re.split(", |、 |، ", re.sub("</?em>", "", line.partition(": ")[2]).lower())


def negations(page: str) -> Iterable[str]:
    """The words of a page that are negative more often than not, as their ranks in both lists tell."""
    for section in re.split(r"^### ", page, flags=re.M)[1:]:
        if section[:8].strip().strip("`").split("`")[0] not in _NEGATIVE:
            continue
        lists = {line[3:].split("`")[0]: listed(line) for line in section.splitlines() if line.startswith("* `")}
        negative = lists.pop("Neg", [])
        others = [words for words in lists.values() if words]
        for rank, word in enumerate(negative):
            if all(word not in words or words.index(word) > rank for words in others):
                yield word


def frequencies(folder: str) -> dict[str, dict[str, float]]:
    """The share of each common word, folded, in the words of each language."""
    found = defaultdict[str, dict[str, float]](lambda: defaultdict(float))
    for path in _git(folder, "ls-tree", "-r", "--name-only", "HEAD", "content/2018/").split():
        if not (match := re.fullmatch(r"content/2018/([a-z]{2})/[a-z]{2}_50k\.txt", path)):
            continue
        rows = [row.split(" ") for row in _git(folder, "show", f"HEAD:{path}").splitlines()[:_LISTED]]
        total = sum(int(count) for _, count in rows)
        for word, count in rows:
            found[fold(word)][match[1]] += int(count) / total
    return found


def is_homograph(word: str, languages: Iterable[str], shares: Mapping[str, Mapping[str, float]], most: float) -> bool:
    """Whether a word of these languages is common in another one, and more than `most` times as frequent there.

    >>> is_homograph("dort", ["tr"], {"dort": {"tr": 0.0004, "de": 0.0015}}, 3)
    True
    """
    of_word, own = shares.get(fold(word), {}), {_LISTS.get(language, language) for language in languages}
    other = max((share for language, share in of_word.items() if language not in own), default=0.0)
    return other >= _COMMON and other > most * max((of_word.get(language, 0.0) for language in own), default=0.0)


def _git(folder: str, *arguments: str) -> str:
    command = ["git", "--git-dir", folder, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603


def main(cldr: str, treebanks: str, subtitles: str) -> None:
    """Write the table."""
    negative, common = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for path in _git(treebanks, "ls-tree", "-r", "--name-only", "HEAD", "treebanks/").split():
        language, _, kind = path.rpartition("/")[2].removesuffix(".md").partition("_")
        kind = kind.partition("-")[2]
        if language not in LANGUAGES or "-" not in kind:
            continue
        if kind in ("feat-Polarity", "feat-PronType"):
            for word in negations(_git(treebanks, "show", f"HEAD:{path}")):
                negative[word].add(language)
        elif kind.startswith("pos-") and kind[4:] in _CLOSED:
            types = re.search(r"^The 10 most frequent `\w+` types:.*$", _git(treebanks, "show", f"HEAD:{path}"), re.M)
            for word in listed(types[0]) if types else ():
                common[word].add(language)
    values, counted = defaultdict[str, set[int]](set), defaultdict[str, set[str]](set)
    shares = frequencies(subtitles)
    for language in sorted(LANGUAGES):
        path = f"cldr-json/cldr-rbnf/rbnf/{language}.json"
        if path in _git(cldr, "ls-tree", "--name-only", "HEAD", path):
            sets = json.loads(_git(cldr, "show", f"HEAD:{path}"))["rbnf"]["rbnf"]["SpelloutRules"]
            for word, value in number_words(Rules(sets)):
                values[word].add(value)
                counted[word].add(language)
    lines = defaultdict[str, list[str]](list)
    for word, found in values.items():
        if fold(word) in _OTHERS or is_homograph(word, counted[word], shares, _FOR_NUMBERS):
            continue
        if len(found) == 1 and is_word(word) and word not in common and word not in negative:
            lines[str(*found)].append(word)
    for word, languages in negative.items():
        if fold(word) in _OTHERS or is_homograph(word, languages, shares, _FOR_NEGATIONS):
            continue
        own = languages & common[word]
        # "No" is something else in seven languages, and denies in six.
        if is_word(word) and 5 * len(languages) >= 4 * len(common[word] - own):
            lines["-"].append(word)
    release = json.loads(_git(cldr, "show", "HEAD:cldr-json/cldr-rbnf/package.json"))["version"]
    rows = [f"{key} {' '.join(sorted({fold(word) for word in words}))}\n" for key, words in lines.items()]
    rows.sort(key=lambda row: int(row.split()[0].replace("-", "-1")))
    OUT.write_text(HEADER.format(cldr=release) + "".join(rows), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
