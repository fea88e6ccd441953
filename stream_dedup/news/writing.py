"""Undo what happens to a text on its way and is not its author's: links written into it, a wrong encoding, the other
script of Serbian, readings of Japanese characters, spaced letters.

A copy differs in these from its original, and nothing in them is news. Each is looked for by a search for one or two
characters, so that an ordinary text costs some 1 µs; ftfy repairs encodings and is asked only where one looks wrong.
"""

import re

# In ASCII: Chinese may go on right behind a link. A full stop behind it belongs to the sentence.
_LINK = re.compile(r"[(\[<]?(?:https?://|www\.)[!-'*-;=?-Z\\^-~]*[0-9A-Za-z/=#&][)\]>]?")
# UTF-8 that was read as Windows-1252: a lead byte and what may follow it, twice. The pairs are leads of three bytes,
# whose first characters are letters of French or Portuguese.
_LEADS = (
    "Ã",
    "Â",
    "Ä",
    "Å",
    "Î",
    "Ï",
    "Ð",
    "Ñ",
    "×",
    "Ø",
    "Ù",
    "â€",
    "à¤",
    "à¥",
    "à¦",
    "à¸",
    "à¹",
    "áº",
    "á»",
    "ã\x81",
)
_MISREAD = re.compile("[Â-ô][\x80-¿€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]")
_HEAD = 1000  # a wrong encoding shows in the first characters
_MOST_REPAIRED = 100_000  # ftfy takes some milliseconds for 10,000 characters
_TO_LATIN = str.maketrans("абвгдђежзијклмнопрстћуфхцчш", "abvgdđežzijklmnoprstćufhcčš")
_TO_LATIN |= {ord(chr(cyrillic).upper()): ord(chr(latin).upper()) for cyrillic, latin in _TO_LATIN.items()}
_TO_LATIN |= {ord(one): two for one, two in zip("љњџЉЊЏ", ("lj", "nj", "dž", "Lj", "Nj", "Dž"), strict=True)}
_READING = re.compile("(?<=[\u3005\u3400-\u9fff])[（(][\u3041-\u309f\u30fc]{1,20}[)）]")
_SPACED = re.compile(r"(?<!\w)\w(?: \w)+(?!\w)")
_WORD = re.compile(r"\w\w")


def as_written(title: str, text: str) -> tuple[str, str]:
    """Title and text as their author wrote them. O(length).

    >>> as_written("F I R E S   I N Elm", "See the map (https://a.example/?utm_source=feed) of SÃ£o JosÃ©.")
    ('FIRES   IN Elm', 'See the map  of São José.')
    >>> as_written("Пожар у граду", "Три особе су погинуле код Ваљева."), as_written("", "山道（やまみち）で")
    (('Požar u gradu', 'Tri osobe su poginule kod Valjeva.'), ('', '山道で'))
    """
    title, text = _one_written(title), _one_written(text)
    if not text.isascii() and (
        "ј" in text or "љ" in text
    ):  # in nearly every Serbian sentence, nor in others but Macedonian
        return title.translate(_TO_LATIN), text.translate(_TO_LATIN)
    return title, text


def _one_written(text: str) -> str:
    if "://" in text or "www." in text:
        text = _LINK.sub("", text).strip() or text
    if text[1:8:2] == "    ":  # four single letters or more
        word = _WORD.search(text)
        end = word.start() if word else len(text)
        text = _SPACED.sub(lambda letters: letters[0].replace(" ", ""), text[:end]) + text[end:]
    if text.isascii():
        return text
    head = text[:_HEAD]
    if any(lead in head for lead in _LEADS) and len(text) <= _MOST_REPAIRED and len(_MISREAD.findall(text)) > 1:
        text = _repaired(text)
    return _READING.sub("", text) if "（" in text or "(" in text else text


def _repaired(text: str) -> str:
    """The text in the encoding that was meant, if ftfy is sure of one."""
    from ftfy import fix_encoding

    return fix_encoding(text)
