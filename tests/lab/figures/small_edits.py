"""Edits that put news into a few words: a reader of the earlier article would miss something of each.

Each adds a sentence or a row, or replaces one word or figure of an otherwise known text. What is said comes from
phrases.toml. An edit that does not apply to a story is None.
"""

import re
from random import Random
from typing import Any

from tests.lab.figures.news_edits import Made, MakeEdit
from tests.lab.figures.stories import WORD, Pool, Story, another_number, plain_numbers, with_swapped

_QUOTED = re.compile(r"[\"“”„«»「」『』]")
_ROWS = 6
_LEAD_WORDS = 10
_CLAUSE_WORDS, _CLAUSE_CHARACTERS = 5, 6


def _said(story: Story, name: str) -> Any:
    return story.phrases.get(name)


def _with_sentence(story: Story, sentence: str, at_end: bool = False) -> str:
    """The text with another sentence, behind the first half of its paragraphs or at its end."""
    paragraphs = [" ".join(paragraph) for paragraph in story.paragraphs]
    place = len(paragraphs) if at_end else max(len(paragraphs) // 2, 1)
    return "\n".join([*paragraphs[:place], sentence, *paragraphs[place:]])


def _names_of_others(story: Story, pool: Pool, chance: Random) -> list[str]:
    """Names of three stories drawn at random that this one does not have."""
    others = chance.sample(pool.stories, min(3, len(pool.stories)))
    return [name for other in others for name in pool.names(other) if name not in story.text]


def fact(story: Story, pool: Pool, chance: Random, at_end: bool = False) -> Made | None:
    """A sentence in the middle that names an arrest, a cause or a victim."""
    facts = _said(story, "facts")
    return facts and Made(story.title, _with_sentence(story, chance.choice(facts), at_end))


def fact_at_end(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The same at the end."""
    return fact(story, pool, chance, at_end=True)


def short_fact(story: Story, pool: Pool, chance: Random, at_end: bool = False) -> Made | None:
    """A sentence of three to seven words in the middle."""
    facts = _said(story, "short_facts")
    return facts and Made(story.title, _with_sentence(story, chance.choice(facts), at_end))


def short_fact_at_end(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The same at the end."""
    return short_fact(story, pool, chance, at_end=True)


def exchanged(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A sentence of the text replaced by one with news."""
    facts = [*(_said(story, "facts") or ()), *(_said(story, "short_facts") or ())]
    inner = story.prose[1:-1]
    if not facts or not inner:
        return None
    return Made(story.title, story.text.replace(chance.choice(inner), chance.choice(facts), 1))


def clause(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The second half of a sentence replaced by that of another story's: another cause, speaker or outcome."""
    others = [one for other in chance.sample(pool.stories, min(3, len(pool.stories))) for one in other.prose]
    own = [one for one in story.prose if _halves(one)]
    others = [one for one in others if _halves(one) and one not in story.text]
    if not own or not others:
        return None
    sentence, other = chance.choice(own), chance.choice(others)
    return Made(story.title, story.text.replace(sentence, _halves(sentence)[0] + _halves(other)[1], 1))


def _halves(sentence: str) -> tuple[str, str] | tuple[()]:
    """The halves of a sentence that is long enough, cut between two words."""
    if "，" in sentence:
        head, comma, rest = sentence.partition("，")
        return (head + comma, rest) if min(len(head), len(rest)) >= _CLAUSE_CHARACTERS else ()
    words = re.split(r"(?<=\s)", sentence)
    half = len(words) // 2
    return ("".join(words[:half]), "".join(words[half:])) if half >= _CLAUSE_WORDS else ()


def turned(story: Story, pool: Pool, chance: Random) -> Made | None:
    """One word of the text turned round: rose, fell; will, has; north, south."""
    pairs = [pair for one in _said(story, "turns") or () for pair in (one, one[::-1])]
    chance.shuffle(pairs)
    for old, new in pairs:
        for sentence in story.prose[:8]:
            if (changed := with_swapped(sentence, {old: new})) != sentence:
                return Made(story.title, story.text.replace(sentence, changed, 1))
    return None


def denied(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A verb of the text negated; the headline stays."""
    for pattern, replacement in _said(story, "negations") or ():
        for sentence in story.prose[:8]:
            changed = re.sub(pattern, replacement, sentence, count=1)
            if changed != sentence:
                return Made(story.title, story.text.replace(sentence, changed, 1))
    return None


def toll_in_words(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A number that is spelt out changed in the text."""
    spelt = _said(story, "spelt") or []
    for sentence in story.prose:
        found = [word for word in spelt if with_swapped(sentence, {word: "·"}) != sentence]
        if found:
            old = chance.choice(found)
            new = chance.choice([word for word in spelt if word != old])
            return Made(story.title, story.text.replace(sentence, with_swapped(sentence, {old: new}), 1))
    return None


def code(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The batch number of a recall changed."""
    pattern = _said(story, "recall")
    if not pattern:
        return None
    first, second = (f"L{chance.randrange(1000, 9999)}{chance.choice('ABCDEFG')}" for _ in range(2))
    before, after = (_with_sentence(story, pattern.format(code=one)) for one in (first, second))
    return Made(story.title, after, ((story.title, before),))


def known_figure(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A number of the text replaced by another one that the text has elsewhere."""
    numbers = list(dict.fromkeys(plain_numbers(" ".join(story.prose))))
    for sentence in story.prose[:5]:
        own = plain_numbers(sentence)
        others = [one for one in numbers if one not in own]
        if own and others:
            changed = with_swapped(sentence, {own[0]: chance.choice(others)})
            return Made(story.title, story.text.replace(sentence, changed, 1))
    return None


def exchanged_figures(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Two numbers of one sentence in each other's place."""
    for sentence in story.prose:
        numbers = list(dict.fromkeys(plain_numbers(sentence)))
        if len(numbers) >= 2:
            changed = with_swapped(sentence, {numbers[0]: numbers[1], numbers[1]: numbers[0]})
            return Made(story.title, story.text.replace(sentence, changed, 1))
    return None


def speaker(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Another name beside a quotation."""
    names, spare = set(pool.names(story)), _names_of_others(story, pool, chance)
    if story.language == "zh" or not spare:
        return None
    for sentence in story.prose:
        own = [word for word in WORD.findall(sentence) if word in names]
        if own and _QUOTED.search(sentence):
            changed = with_swapped(sentence, {own[-1]: chance.choice(spare)})
            return Made(story.title, story.text.replace(sentence, changed, 1))
    return None


def place(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A name of the text swapped for another one, everywhere; the headline has none of it."""
    names = [name for name in pool.names(story) if name not in story.title]
    spare = _names_of_others(story, pool, chance)
    if story.language == "zh" or not names or not spare:
        return None
    return Made(story.title, with_swapped(story.text, {chance.choice(names[:4]): chance.choice(spare)}))


def cancelled(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The headline says "Cancelled:" in front, and the text has a sentence on it."""
    words = _said(story, "cancelled")
    return words and Made(words[0].format(title=story.title), _with_sentence(story, words[1]))


def postponed(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The headline says "postponed to Friday" behind, and the text has a sentence on it."""
    words = _said(story, "postponed")
    return words and Made(words[0].format(title=story.title), _with_sentence(story, words[1]))


def row(story: Story, pool: Pool, chance: Random) -> Made | None:
    """One more row of a list."""
    names = _names_of_others(story, pool, chance)[: _ROWS + 1]
    if len(names) <= _ROWS:
        return None
    rows = [f"{name}: {chance.randrange(10, 400)}" for name in names]
    short = rows[:3] + rows[4:]
    before, after = ("\n".join([story.text, *some]) for some in (short, rows))
    return Made(story.title, after, ((story.title, before),))


def follow_up(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A new headline, and the news in a first sentence that keeps the old words; the rest is background."""
    facts, names = _said(story, "short_facts"), [one for one in pool.names(story) if one in story.title]
    words = story.prose[0].split()
    if not facts or not names or len(words) < _LEAD_WORDS or not story.text.startswith(story.prose[0]):
        return None
    said = chance.choice(facts).rstrip(".।。")
    lead = f"{said}, {' '.join(words[len(words) // 2 :])}"
    return Made(f"{names[0]}: {said}", lead + story.text[len(story.prose[0]) :])


def own_version(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A number of the text changed, in a new version of the same id."""
    numbers = plain_numbers(" ".join(story.prose[:3]))
    if not numbers:
        return None
    number = chance.choice(numbers)
    changed = with_swapped(story.text, {number: another_number(number, chance, story.text)})
    return Made(story.title, changed, same_site=True, same_id=True)


SMALL: dict[str, MakeEdit] = {
    edit.__name__: edit
    for edit in (
        fact, fact_at_end, short_fact, short_fact_at_end, exchanged, clause, turned, denied, toll_in_words, code,
        known_figure, exchanged_figures, speaker, place, cancelled, postponed, row, follow_up, own_version,
    )
}  # fmt: skip
"""The edits with news in a few words, by kind."""
