"""The encoding of bytes that do not say it: UTF-16 and UTF-32 by their first bytes, others by a guess."""

import re

from stream_dedup.extras import require

_WIDE = {
    "utf-32": rb"\xff\xfe\0\0|\0\0\xfe\xff", "utf-16": rb"\xff\xfe|\xfe\xff", "utf-32-le": rb"[^\0]\0\0\0",
    "utf-32-be": rb"\0\0\0[^\0]", "utf-16-le": rb"(?:[^\0]\0){2}", "utf-16-be": rb"(?:\0[^\0]){2}",
}  # fmt: skip
# A publisher that declares one of these means Windows-1252, a superset.
WINDOWS = re.compile(r"(?i)iso[-_]?8859[-_]?1$|latin-?1$|us-ascii$")
# A guess uses the words between tags that are not ASCII.
_IN_WORD = re.compile(rb"[A-Za-z][\x80-\xff]|(?<![\x80-\xff])[\x80-\xff]+[A-Za-z]")
_LATIN, _CJK = "\u036f", "\u2e80"  # the last character of the Latin script and its marks; the first of East Asian ones
_SURE = 0.15  # chardet was wrong about four of nine phrases in Latin script, with .03 to .12
# Bytes of the six letters that Turkish has where Icelandic and Faroese have others; and of letters of only the latter.
_TURKISH, _ICELANDIC = frozenset(b"\xd0\xdd\xde\xf0\xfd\xfe"), frozenset("ÁÉÍÓÚÆáéíóúæ".encode("latin-1"))
_TAG, _NOT_ASCII, _SAMPLE = re.compile(rb"<[^<>]*>"), re.compile(rb"[^\x00-\x7f]+"), 2**16


def wide_encoding(head: bytes) -> str:
    """Return UTF-16 or UTF-32 if the first bytes show one of them, with or without a byte order mark, else "".

    >>> [wide_encoding("id,x".encode(name)) for name in ("utf-16", "utf-16-le", "utf-32-be", "utf-8")]
    ['utf-16', 'utf-16-le', 'utf-32-be', '']
    """
    return next((name for name, start in _WIDE.items() if re.match(start, head)), "")


def guessed_encoding(value: bytes) -> str:
    """Guess the encoding of bytes that are not UTF-8; "" for UTF-8, even with a few broken bytes.

    >>> guessed_encoding("Brücke".encode()), guessed_encoding("1;Die Brücke über die Elm ist geöffnet".encode("cp1252"))
    ('', 'cp1252')
    >>> [guessed_encoding(text.encode(name)) for text, name in (("Köprü kapandı", "cp1254"), ("Brúin sagði", "cp1252"))]
    ['cp1254', 'cp1252']
    """
    words = _TAG.sub(b" ", value[: 16 * _SAMPLE])[:_SAMPLE]
    runs = _NOT_ASCII.findall(words)
    text = b" ".join(runs).decode("utf-8", "surrogateescape")
    if 2 * sum("\udc80" <= letter <= "\udcff" for letter in text) <= len(text.replace(" ", "")):
        return ""
    guess = require("chardet", "text that is not UTF-8", "write it in UTF-8").detect(words)
    name = guess["encoding"] or "cp1252"
    scripts = {
        letter > _LATIN for letter in b"".join(runs).decode(name, "replace") if letter.isalpha() and letter < _CJK
    }
    # Letters within ASCII words are Latin. chardet takes a few of them for Cyrillic.
    is_latin = 2 * len(_IN_WORD.findall(words)) >= len(runs)
    is_doubtful = is_latin and scripts and (True in scripts or guess["confidence"] < _SURE)
    if not is_doubtful and not WINDOWS.match(name):
        return name
    return "cp1254" if _TURKISH & {*words} and not _ICELANDIC & {*words} else "cp1252"
