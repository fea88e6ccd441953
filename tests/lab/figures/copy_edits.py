"""Edits that leave an article what it is: a reader of the earlier one would miss nothing of any.

An edit that does not apply to a story is None. What a site puts round an article (phrases.toml) is of a site that the
pool does not have, so that nothing of it is known.
"""

import re
import unicodedata
from random import Random

from tests.lab.figures.news_edits import Made, MakeEdit
from tests.lab.figures.stories import WORD, Pool, Story, with_swapped

_TEASERS = 6
_TYPOS, _LONG_WORD = 2, 6
_SENTENCES = 6  # of a text of one paragraph that is cut into paragraphs, at least
# What Arabic and Persian keyboards write in more than one way.
_FOLDED = {
    "ar": {"أ": "ا", "إ": "ا", "آ": "ا", "ى": "ي", "ـ": "", **dict.fromkeys(map(chr, range(0x64B, 0x653)), "")},
    "fa": {"ی": "ي", "ک": "ك", "\u200c": " ", "ۀ": "ه"},
}


def teasers(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Headlines of other stories behind it."""
    others = pool.others(story, _TEASERS, chance)
    if others is None or not story.phrases:
        return None
    return Made(story.title, "\n".join([story.text, story.phrases["related"], *(other.title for other in others)]))


def cut(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The last quarter of its sentences cut."""
    left = len(story.text) * 3 // 4
    kept: list[str] = []
    for paragraph in story.paragraphs:
        sentences = [one for one in paragraph if (left := left - len(one)) > 0]
        kept += [" ".join(sentences)] if sentences else []
    return Made(story.title, "\n".join(kept))


def teased(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The last quarter cut, and in its place an invitation to read on."""
    shorter = cut(story, pool, chance)
    return Made(story.title, f"{shorter.text} {story.phrases['more']} ...") if shorter and story.phrases else None


def ellipsis(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The last sentence breaks off."""
    last = story.paragraphs[-1][-1]
    rest = story.text[: -len(last)]
    return Made(story.title, rest + last[: len(last) // 2].rstrip() + "…")


def headline(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The headline in other words: its clauses in another order, or without some small words."""
    parts = re.split(r": |\s[-|–—]\s|[：|｜，]", story.title)
    if len(parts) == 2 and min(map(len, parts)) >= 6 and chance.random() < 0.5:
        return Made(" – ".join(part.strip() for part in reversed(parts)), story.text)
    words = story.title.split()
    kept, names = set(story.phrases.get("kept", ())), {word.lower() for word in pool.names(story)}
    small = [
        at
        for at, word in enumerate(words)
        if at and word.isalpha() and word.lower() not in kept | names and pool.is_common(word.lower())
    ]
    if not small or len(words) < 6 or not story.has_capitals:
        return None
    dropped = set(chance.sample(small, min(len(small), 2)))
    return Made(" ".join(word for at, word in enumerate(words) if at not in dropped), story.text)


def affixes(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Words of the site before and behind the headline."""
    if not story.phrases:
        return None
    return Made(f"{story.phrases['breaking']}{story.title} | Elm Gazette", story.text)


def site_suffix(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The site's name behind the headline."""
    return Made(f"{story.title} - {chance.choice(('Other Example', 'other.example', 'The Elm Gazette'))}", story.text)


def synonyms(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Two or three common words replaced by others that mean the same."""
    pairs = list(story.phrases.get("synonyms", ()))
    chance.shuffle(pairs)
    text, most = story.text, chance.choice((2, 3))
    for old, new in pairs:
        for sentence in story.prose:
            if most and (changed := with_swapped(sentence, {old: new})) != sentence:
                text, most = text.replace(sentence, changed, 1), most - 1
                break
    return Made(story.title, text)


def typo(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Two long words misspelt: two of their letters have changed places."""
    words = sorted({word for word in WORD.findall(" ".join(story.prose)) if len(word) >= _LONG_WORD and word.isalpha()})
    if len(words) < _TYPOS or not story.has_capitals:
        return None
    swaps = {}
    for word in chance.sample(words, _TYPOS):
        at = chance.randrange(1, len(word) - 2)
        swaps[word] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return Made(story.title, with_swapped(story.text, swaps))


def headline_alone(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The headline without a text, with other words of a site before and behind it."""
    if not story.phrases:
        return None
    return Made(f"{story.phrases['breaking']}{story.title}", "", ((f"{story.title} - The Elm Gazette", ""),))


def script(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The same letters written in another way: other forms in Arabic and Persian, else decomposed accents."""
    table = str.maketrans(_FOLDED.get(story.language, {}))

    def written(text: str) -> str:
        return text.translate(table) if table else unicodedata.normalize("NFD", text)

    made = Made(written(story.title), written(story.text))
    return made if made.text != story.text else None


def typography(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Other quotes, dashes and spaces, and the headline in capitals."""

    def set_anew(text: str) -> str:
        text = re.sub(r"[\"„“”«»]", lambda match: "“" if match[0] in '„«"' else '"', text)
        text = re.sub(r"['’‘]", lambda match: "'" if match[0] != "'" else "’", text)
        text = re.sub(r"\s[-–—]\s", " — " if " – " in text else " – ", text).replace("...", "…")
        return re.sub(r"(?<=\w) (?=\d)|(?<=\d) (?=\w)", "\u00a0", text)

    title = story.title.upper() if chance.random() < 0.5 else story.title
    made = Made(set_anew(title), set_anew(story.text))
    return made if (made.title, made.text) != (story.title, story.text) else None


def paragraphs(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The paragraphs behind the first in another order; a text of one paragraph is cut into paragraphs before."""
    first, *rest = map(" ".join, story.paragraphs)
    sentences = [one for paragraph in story.paragraphs for one in paragraph]
    if len(rest) < 3:
        if len(sentences) < _SENTENCES:
            return None
        first, *rest = (" ".join(sentences[at : at + 2]) for at in range(0, len(sentences), 2))
    before = list(rest)
    chance.shuffle(rest)
    return Made(story.title, "\n".join([first, *rest])) if rest != before else None


def byline(story: Story, pool: Pool, chance: Random) -> Made | None:
    """An author above it."""
    return Made(story.title, f"{story.phrases['byline']}\n{story.text}") if story.phrases else None


def dateline(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A place and an agency before the first sentence."""
    return Made(story.title, story.phrases["dateline"] + story.text) if story.phrases else None


def credit(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A photographer in the text."""
    if not story.phrases:
        return None
    first, *rest = map(" ".join, story.paragraphs)
    return Made(story.title, "\n".join([first, story.phrases["credit"], *rest]))


def read_more(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A link to the whole article behind it."""
    return Made(story.title, f"{story.text}\n{story.phrases['more']}") if story.phrases else None


def newsletter(story: Story, pool: Pool, chance: Random) -> Made | None:
    """An invitation of three sentences to a newsletter in the middle."""
    if not story.phrases:
        return None
    lines = list(map(" ".join, story.paragraphs))
    lines.insert((len(lines) + 1) // 2, story.phrases["newsletter"])
    return Made(story.title, "\n".join(lines))


def doubled(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The text twice, as careless extraction has it."""
    return Made(story.title, f"{story.text}\n{story.text}")


def spelt_numbers(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Numbers from two to twelve in words instead of figures, or the other way round."""
    if (spelt := story.phrases.get("spelt")) is None:
        return None
    to_words = {str(number): word for number, word in enumerate(spelt, 2)}
    to_figures = {word: number for number, word in to_words.items()}
    for swaps, behind in ((to_words, r"(?= [a-zäöü]{4,})"), (to_figures, "")):
        pattern = re.compile(rf"(?<![\w.,:$€£/–-])(?<![-–\d] )({'|'.join(swaps)})(?![\w:%/–-]|[.,]\d){behind}")
        title, text = (pattern.sub(lambda match, by=swaps: by[match[0]], old) for old in (story.title, story.text))
        if text != story.text:
            return Made(title, text)
    return None


def thousands(story: Story, pool: Pool, chance: Random) -> Made | None:
    """Thousands set apart in another way: 12,000 and 12 000."""
    mark = "," if story.language in ("en", "zh", "hi", "ne") else r"\."
    pattern = rf"(?<![\w.,])(\d{{1,3}}){mark}(\d{{3}})(?![\w.,]*\d)"
    set_anew = chance.choice((r"\1\2", "\\1\u202f\\2"))
    made = Made(re.sub(pattern, set_anew, story.title), re.sub(pattern, set_anew, story.text))
    return made if made.text != story.text else None


def honorifics(story: Story, pool: Pool, chance: Random) -> Made | None:
    """A title before a surname wherever it stands alone."""
    if (title := story.phrases.get("honorific")) is None:
        return None
    for name in pool.names(story):
        # After a word in small letters and before one: neither a first name nor a part of a longer name.
        alone = re.compile(rf"(?<!\w)([a-zà-ÿ]+,? ){re.escape(name)}(?= [a-zà-ÿ])")
        has_first_name = re.search(rf"[A-ZÀ-Þ][a-zà-ÿ]+ {re.escape(name)}\b", story.text)
        if has_first_name and alone.search(story.text):
            return Made(story.title, alone.sub(rf"\g<1>{title}{name}", story.text))
    return None


COPIES: dict[str, MakeEdit] = {
    edit.__name__: edit
    for edit in (
        teasers, cut, teased, ellipsis, headline, headline_alone, affixes, site_suffix, typography, script, paragraphs,
        byline, dateline, credit, read_more, newsletter, doubled, spelt_numbers, thousands, honorifics, synonyms, typo,
    )
}  # fmt: skip
"""The edits without news, by kind."""
