"""The passages of texts: sentences and lines, and which of them are prose; core/sentences.c cuts them.

A page is an article among menus, link lists, forms, captions and share panels, and only the article can bring news. A
sentence of prose ends in a sentence mark and is at least eight words long (or fifteen characters of a script without
spaces); menus and lists do not. The rule needs no word list and no list of sites, and therefore holds for every script.
`dedup.boilerplate` later recognises passages that recur on many pages (subscribe, copyright), by their hashes.

Lines of equal length are wrapped: there a line break ends a sentence only before a blank or an empty line, as in texts
of news wires.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Passages(NamedTuple):
    """Passages of a batch, (n,) each: sentences and lines, in pieces of 16 tokens. They cut each text without a gap.

    ends: int64, the token after each, of all texts of the batch; hashes: uint32, of its tokens; is_prose: it is part of
    a sentence of prose and not of menus or lists; is_last: it ends its sentence or line. first_shingles, last_shingles:
    int64, the shingles that begin in the passage and end in its sentence.
    """

    ends: NDArray[np.int64]
    hashes: NDArray[np.uint32]
    is_prose: NDArray[np.bool_]
    is_last: NDArray[np.bool_]
    first_shingles: NDArray[np.int64]
    last_shingles: NDArray[np.int64]
