"""Undo what happens to a text on its way and is not its author's: links written into it, a wrong encoding, the other
script of Serbian, readings of Japanese characters, spaced letters.

A copy differs in these from its original, and nothing in them is news. The first characters tell an encoding and a
language, so an ordinary text costs a search for links. ftfy repairs encodings, and is asked only where one looks wrong.
"""

import re

# In ASCII: Chinese may go on right behind a link. A full stop behind it belongs to the sentence.
_LINK = re.compile(r"https?://[!-'*-;=?-Z\\^-~]*[0-9A-Za-z/=#&]")
# UTF-8 that was read as Windows-1252: the lead byte of a letter, and what follows it. The leads of Syriac and N'Ko are
# left out, because German writes ß before a quotation mark.
_MISREAD = re.compile("[Â-Ûà-ä][\x80-¿€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]")
# Its bytes in Latin-1 by their part in that: 1 a lead byte, 2 what may follow ("?" stands for what Latin-1 lacks).
_PARTS = bytes(
    1 if 0xC2 <= n <= 0xDB or 0xE0 <= n <= 0xE4 else 2 if 0x80 <= n < 0xC0 or n == ord("?") else 0 for n in range(256)
)
# A wrong encoding and a language show in the first characters; to search all of them takes a tenth of a fingerprint.
_HEAD = 300
_LATIN_END = "\u0370"
_MOST_REPAIRED = 100_000  # ftfy takes some milliseconds for 10,000 characters
_TO_LATIN: dict[int, int | str] = {}
_TO_LATIN |= str.maketrans("абвгдђежзијклмнопрстћуфхцчш", "abvgdđežzijklmnoprstćufhcčš")
_TO_LATIN |= str.maketrans("АБВГДЂЕЖЗИЈКЛМНОПРСТЋУФХЦЧШ", "ABVGDĐEŽZIJKLMNOPRSTĆUFHCČŠ")
_TO_LATIN |= {ord(letter): pair for letter, pair in zip("љњџЉЊЏ", ("lj", "nj", "dž", "Lj", "Nj", "Dž"), strict=True)}
_READING = re.compile("(?<=[\u3005\u3400-\u9fff])[（(][\u3041-\u309f\u30fc]{1,20}[)）]")
_SPACED = re.compile(r"(?<!\w)\w(?: \w)+(?!\w)")
_WORD = re.compile(r"\w\w")


def as_written(title: str, text: str) -> tuple[str, str]:
    """Return the title and the text as their author wrote them. O(length).

    >>> as_written("F I R E S   I N Elm", "See the map https://a.example/?utm_source=feed of SÃ£o JosÃ©.")
    ('FIRES   IN Elm', 'See the map  of São José.')
    >>> as_written("Пожар у граду", "Три особе су погинуле код Ваљева."), as_written("", "山道（やまみち）を通る")
    (('Požar u gradu', 'Tri osobe su poginule kod Valjeva.'), ('', '山道を通る'))
    """
    title, text = _without_links(title), _without_links(text)
    if text.isascii() and title.isascii():
        return title, text
    head = f"{title} {text[:_HEAD]}"
    # Text that was misread begins with a character of Latin-1.
    if (title[:1] < _LATIN_END or text[:1] < _LATIN_END) and _is_misread(head):
        title, text = _repaired(title), _repaired(text)
    if "を" in head or "る" in head:  # Japanese; other texts have many brackets
        title, text = _READING.sub("", title), _READING.sub("", text)
    # One of these letters is in nearly every sentence of Serbian, and else only in Macedonian.
    if "ј" in head or "љ" in head:
        title, text = title.translate(_TO_LATIN), text.translate(_TO_LATIN)
    return title, text


def _without_links(text: str) -> str:
    """Return a text without the links and the spaces between letters."""
    if "/" in text:  # one character is found five times as fast as several
        slash = text.find("/")
        while slash >= 0 and text[slash - 1 : slash + 2] != "://":
            slash = text.find("/", slash + 1)
        if slash >= 0:
            start = max(slash - len("https:"), 0)
            shorter = (text[:start] + _LINK.sub("", text[start:])).strip()
            text = shorter if _WORD.search(shorter) else text
    if text[1:2] == " " and text[1:8:2] == "    ":  # four single letters or more
        word = _WORD.search(text)
        end = word.start() if word else len(text)
        text = _SPACED.sub(lambda letters: letters[0].replace(" ", ""), text[:end]) + text[end:]
    return text


def _is_misread(head: str) -> bool:
    # Most texts lack a lead byte, and to look for it takes a third of the search.
    parts = head.encode("latin-1", "replace").translate(_PARTS)
    return b"\1\2" in parts and _MISREAD.search(head) is not None


def _repaired(text: str) -> str:
    """Return the text in the encoding that was meant, if it looks wrong and ftfy is sure of one."""
    from ftfy import fix_encoding

    return fix_encoding(text) if len(text) <= _MOST_REPAIRED and _is_misread(text[:_HEAD]) else text
