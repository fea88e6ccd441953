"""The character classes of the tokeniser: which scripts are split into words, and which into single characters.

In scripts that separate words with spaces, a token is a word. In scripts that do not (Chinese, Japanese, Thai, Lao,
Khmer, Burmese, Tibetan), each character is a token, so that no script is dropped, as ASCII tokenisers do.
"""

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

SEPARATOR, WORD, CHARACTER, IGNORED = 0, 1, 2, 3

# Beyond this code point there are only tags and private use.
TABLE_SIZE = 0x33480

HAN = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, TABLE_SIZE - 1))
"""Code points of Chinese characters: the main block, its extensions and compatibility forms; first and last."""
# Unicode blocks of scripts that do not separate words with spaces.
_WITHOUT_SPACES = (
    *HAN,
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # CJK radicals
    (0x3005, 0x3007),  # iteration mark, closing mark, zero
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x3100, 0x312F),  # Bopomofo
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0xA9E0, 0xA9FF),
    (0xAA60, 0xAA7F),  # Myanmar, extended
    (0x1B000, 0x1B16F),  # Kana, extended
)
# Marks that do not split a word: don't = don’t = dont.
_JOINERS = "'’‘ʼ＇"


@cache
def character_classes() -> NDArray[np.uint8]:
    """The class of each code point: (TABLE_SIZE,) uint8. Built once in a process, in some 30 ms.

    >>> [int(character_classes()[ord(c)]) for c in "a7 新ж"]
    [1, 1, 0, 2, 1]
    """
    table = np.zeros(TABLE_SIZE, np.uint8)
    for code in range(0x20000):
        category = unicodedata.category(chr(code))
        # Words consist of letters, marks and numbers; formatting characters (zero-width, soft hyphen) are ignored.
        if category[0] in "LMN":
            table[code] = WORD
        elif category == "Cf":
            table[code] = IGNORED
    for first, last in _WITHOUT_SPACES:
        part = table[first : last + 1]
        part[part == WORD] = CHARACTER
        if first >= 0x20000:
            part[:] = CHARACTER
    for joiner in _JOINERS:
        table[ord(joiner)] = IGNORED
    table.setflags(write=False)
    return table
