"""Edits that put news into an article: a reader of the earlier one would miss something of each.

An edit that does not apply to a story is None: no number in the headline, no verb to negate.
"""

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from random import Random
from typing import NamedTuple

from tests.lab.figures.stories import WORD, Pool, Story, another_number, plain_numbers, with_swapped, words_of

_FORM_SWAPS = 4  # names that another filling of a form changes, at least
_OTHERS = 9
_SHORT_WORDS = (40, 200)


class Made(NamedTuple):
    """An edited article. earlier: headlines and texts before it, if they are not the story itself.

    same_site, same_id: those of the article before; else it comes from another site under an id of its own.
    """

    title: str
    text: str
    earlier: tuple[tuple[str, str], ...] = ()
    same_site: bool = False
    same_id: bool = False


MakeEdit = Callable[[Story, Pool, Random], Made | None]


def append(story: Story, pool: Pool, chance: Random, count: int = 2) -> Made | None:
    """Two sentences of another story at the end."""
    fresh = pool.fresh_sentences(story, count, chance)
    return fresh and Made(story.title, f"{story.text}\n{' '.join(fresh[1])}")


def append_one(story: Story, pool: Pool, chance: Random) -> Made | None:
    """One sentence of another story at the end."""
    return append(story, pool, chance, 1)


def lead(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Two sentences of another story as the lead, under its headline."""
    fresh = pool.fresh_sentences(story, 2, chance)
    return fresh and Made(fresh[0].title, f"{' '.join(fresh[1])}\n{story.text}")


def six_sentences(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Six sentences of another story behind the lead of a short one, under the same headline."""
    fresh = pool.fresh_sentences(story, 6, chance)
    if fresh is None or not _SHORT_WORDS[0] <= len(story.words) <= 2 * _SHORT_WORDS[1]:
        return None
    first, *rest = story.paragraphs
    return Made(story.title, "\n".join([" ".join(first), " ".join(fresh[1]), *map(" ".join, rest)]))


def quote(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A quotation of another story in the middle."""
    fresh = pool.fresh_sentences(story, 1, chance, re.compile(r"[\"“”„«»「『]\s?\w.*[\"“”„«»」』]"))
    if fresh is None:
        return None
    sentences = [sentence for paragraph in story.paragraphs for sentence in paragraph]
    middle = len(sentences) // 2
    return Made(story.title, "\n".join(map(" ".join, (sentences[:middle], fresh[1], sentences[middle:]))))


def half(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The first half of the story and the second half of another, under that one's headline."""
    others = pool.others(story, 1, chance)
    if others is None:
        return None
    first, second = story.prose[: len(story.prose) // 2], others[0].prose[len(others[0].prose) // 2 :]
    return Made(others[0].title, " ".join(first) + "\n" + " ".join(second))


def swallow(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A short story after a page of nine unrelated others that had its headline."""
    others = pool.others(story, _OTHERS, chance)
    if others is None:
        return None
    short: list[str] = []
    while len(short) < len(story.prose) and len(words_of(" ".join(short))) < _SHORT_WORDS[0] * 2:
        short.append(story.prose[len(short)])
    page = "\n".join(other.text for other in others)
    return Made(story.title, " ".join(short), ((story.title, page),))


def unmarked(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Half of another story behind it, both without a mark or a line, as transcripts and stripped texts are."""
    others = pool.others(story, 1, chance)
    if others is None:
        return None
    text, other = _without_marks(story.text), _without_marks(others[0].text)
    second_half = other[other.find(" ", len(other) // 2) :]
    return Made(story.title, text + second_half.lstrip(), ((story.title, text),))


def _without_marks(text: str) -> str:
    return " ".join(re.sub(r"[.,:;!?…“”\"()。，：；！？、؟،؛।॥–—]", " ", text).split()) + " "


def paywall(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Another article of the site, of which as of the one before nothing but an invitation to subscribe is known."""
    others = pool.others(story, 1, chance)
    if others is None or not story.phrases:
        return None
    text = story.phrases["newsletter"]
    return Made(others[0].title, text, ((story.title, text),), same_site=True)


# -- a few words ------------------------------------------------------------------------------------------------------


def _figures(story: Story) -> list[str]:
    """Numbers that the headline and the beginning of the text have."""
    beginning = plain_numbers(story.beginning)
    return [number for number in plain_numbers(story.title) if number in beginning and _is_count(number, story)]


def _is_count(number: str, story: Story) -> bool:
    """Whether a number of the headline counts something: no part of a name, no day, no rank, no "5 Best Pens"."""
    if "day" in story.phrases and number in {found["day"] for found in re.finditer(story.phrases["day"], story.title)}:
        return False
    before, _, after = story.title.partition(number)
    words = before.split()
    if not words and story.language == "en" and after.split()[:1] and after.split()[0][0].isupper():
        return False
    is_named = story.has_capitals and words and words[-1][0].isupper() and words[-1][-1].isalpha()
    return not is_named and re.match(r"[ -]?(?![日月年号號届屆])[%％\w]", after) is not None


def _swapped(story: Story, swaps: Mapping[str, str], *, same_site: bool = False) -> Made:
    return Made(with_swapped(story.title, swaps), with_swapped(story.text, swaps), same_site=same_site)


def figure(story: Story, pool: Pool, chance: Random, same_site: bool = False) -> Made | None:
    """A number of the headline changed, there and in the text."""
    numbers = [number for number in _figures(story) if "." not in number and "," not in number]
    if not numbers:
        return None
    number = chance.choice(numbers)
    return _swapped(story, {number: another_number(number, chance, story.text)}, same_site=same_site)


def figure_same_site(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A number of the headline changed, there and in the text, by the same site."""
    return figure(story, pool, chance, same_site=True)


def figure_version(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A number of the headline changed, there and in the text, in a new version of the same id."""
    edit = figure(story, pool, chance, same_site=True)
    return edit and edit._replace(same_id=True)


def figure_text(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A number of the first three sentences changed in the text; the headline has none of it."""
    numbers = [number for number in plain_numbers(" ".join(story.prose[:3])) if number not in story.title]
    if not numbers:
        return None
    number = chance.choice(numbers)
    return Made(story.title, with_swapped(story.text, {number: another_number(number, chance, story.text)}))


def amount(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A decimal, a percentage or a price of the headline changed, there and in the text."""
    numbers = [number for number in _figures(story) if re.search(r"[.,]", number) or _is_amount(number, story.title)]
    if not numbers:
        return None
    number = chance.choice(numbers)
    places = [at for at, one in enumerate(number) if one.isdigit()]
    at = places[1] if len(places) > 1 else places[0]  # 4.25 -> 4.75: the first digit stays
    changed = number[:at] + another_number(number[at:], chance, story.text)
    return _swapped(story, {number: changed})


def _is_amount(number: str, title: str) -> bool:
    return (
        re.search(
            rf"[$€£¥₹]\s?{re.escape(number)}|{re.escape(number)}\s?(?:[%％元万億亿]|per ?cent|Prozent|por ciento)",
            title,
        )
        is not None
    )


def form(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Every name and number swapped, as another site fills in the same form."""
    names = pool.names(story)
    others = pool.others(story, 3, chance)
    if others is None:
        return None
    known = set(words_of(story.text))
    spare = [name for other in others for name in pool.names(other) if name.lower() not in known]
    spare = [name for name in dict.fromkeys(spare) if name not in story.text]
    swaps = _of_same_length(names, spare) if story.language == "zh" else dict(zip(names, spare, strict=False))
    numbers = dict.fromkeys([*plain_numbers(story.title), *plain_numbers(story.text)])
    swaps |= {number: another_number(number, chance, number) for number in numbers}
    made = _swapped(story, swaps)
    is_enough = len(swaps) >= _FORM_SWAPS and made.title != story.title
    return made if is_enough and any(name in story.title for name in swaps if not name[0].isdigit()) else None


def _of_same_length(names: list[str], spare: list[str]) -> dict[str, str]:
    swaps: dict[str, str] = {}
    for name in names:
        fitting = [other for other in spare if len(other) == len(name) and other not in swaps.values()]
        if fitting:
            swaps[name] = fitting[0]
    return swaps


def _headline_names(story: Story, pool: Pool) -> list[str]:
    """Names of the headline that the text has twice or more."""
    title = story.title if story.language == "zh" else set(WORD.findall(story.title))
    counts = len if story.language == "zh" else None
    names = [name for name in pool.names(story) if name in title]
    if counts:
        return names
    found = WORD.findall(story.text)
    return [name for name in names if found.count(name) >= 2]


def name(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A name of the headline swapped for another article's, there and in the text."""
    names, others = _headline_names(story, pool), pool.others(story, 3, chance)
    if not names or others is None:
        return None
    old = chance.choice(names)
    spare = [one for other in others for one in _headline_names(other, pool) if one not in story.text]
    if story.language == "zh":
        spare = [one for one in spare if len(one) == len(old)]
    return _swapped(story, {old: chance.choice(spare)}) if spare else None


def order(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Two names of the headline in each other's place: who beat whom."""
    if not story.has_capitals:
        return None
    names = _headline_names(story, pool)
    title = WORD.findall(story.title)
    places = [at for at, word in enumerate(title) if word in names]
    for left, right in pairwise(places):
        between = title[left + 1 : right]
        around = [*title[max(left - 1, 0) : left], *title[right + 1 : right + 2]]
        # One verb of four letters or more, neither "and" nor "in"; and no parts of longer names.
        is_verb = 1 <= len(between) <= 3 and len(between[0]) >= 4 and between[0].islower()
        if is_verb and title[left] != title[right] and all(one[0].islower() for one in around):
            return _swapped(story, {title[left]: title[right], title[right]: title[left]})
    return None


def date(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A day of the headline changed, there and in the text: 5 March, Monday."""
    if "day" in story.phrases:
        pattern = re.compile(story.phrases["day"])
        match, places = pattern.search(story.title), {found["day"] for found in pattern.finditer(story.text)}
        if match and (day := match["day"]) in places:
            changed = str(chance.choice([other for other in range(10, 29) if str(other) not in places]))
            return Made(_other_day(pattern, story.title, day, changed), _other_day(pattern, story.text, day, changed))
    weekdays = story.phrases.get("weekdays", [])
    names = [one for one in weekdays if with_swapped(story.title, {one: "·"}) != story.title]
    spare = [one for one in weekdays if one not in story.text]
    if len(names) == 1 and with_swapped(story.text, {names[0]: "·"}) != story.text and spare:
        return _swapped(story, {names[0]: chance.choice(spare)})
    return None


def _other_day(pattern: re.Pattern[str], text: str, day: str, changed: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        start, end = match.start("day") - match.start(), match.end("day") - match.start()
        return match[0][:start] + changed + match[0][end:] if match["day"] == day else match[0]

    return pattern.sub(replaced, text)


def negation(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The headline's verb negated, there and in the sentence of the text that says it."""
    kept = set(story.phrases.get("kept", ()))
    if re.search("[?？]", story.title) or kept & set(words_of(story.title)):
        return None
    title = pool.rare_words(story.title)
    for pattern, replacement in story.phrases.get("negations", ()):
        if (match := re.search(pattern, story.title)) is None:
            continue
        said = [one for one in story.prose[:8] if (found := re.search(pattern, one)) and found[0] == match[0]]
        said = [one for one in said if len(title & set(words_of(one))) >= 2]
        if said:
            negated = re.sub(pattern, replacement, said[0], count=1)
            changed = re.sub(pattern, replacement, story.title, count=1)
            return Made(changed, story.text.replace(said[0], negated, 1))
    return None


def correction(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A number changed in the text, and at its end a note that says so."""
    numbers = plain_numbers(" ".join(story.prose[:5]))
    if not numbers or "correction" not in story.phrases:
        return None
    old = chance.choice(numbers)
    new = another_number(old, chance, story.text)
    note = story.phrases["correction"].format(old=old, new=new)
    return Made(with_swapped(story.title, {old: new}), with_swapped(story.text, {old: new}) + "\n" + note)


NEWS: dict[str, MakeEdit] = {
    edit.__name__: edit
    for edit in (
        append, append_one, lead, six_sentences, quote, half, unmarked, swallow, paywall, figure, figure_same_site,
        figure_version, figure_text, amount, form, name, order, date, negation, correction,
    )
}  # fmt: skip
"""The edits with news, by kind."""
