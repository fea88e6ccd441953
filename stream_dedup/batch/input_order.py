"""Input files -> the order in which they are read: that of their dates, where the one given goes back in time.

In: the inputs as given. Out: the same inputs. Who is first decides what is a copy of what, and a watermark never goes
back, so the file of 2022 belongs before that of 2024 whatever the shell made of `*.jsonl`. Only the beginning of each
file is read. Standard input and pipes cannot be read twice: with one of them among the inputs the order stays as given.
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median_low

from stream_dedup.batch.lines import STDIN, read_lines
from stream_dedup.batch.rows import Form
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings

# The median of so many does not follow a dozen wrong dates; a file without dates is given up after so many lines.
_DATES = 25
_LINES = 1000


def in_order_of_time(inputs: Sequence[str], settings: Settings, form: Form | None = None) -> list[str]:
    """The inputs by the dates at their beginnings if these go back by more than a window anywhere, else as given.

    As given, too, if one of them has no dates or is no regular file. Raises InputError for one that cannot be read.
    """
    given = list(inputs)
    if len(given) < 2 or any(one == STDIN or not Path(one).is_file() for one in given):
        return given
    decode = Decoder(settings.item)
    begins = [_beginning(one, form, decode) for one in given]
    known = [one for one in begins if one is not None]
    if len(known) < len(given):
        return given
    window = settings.window.length_ms
    highest = known[0]
    for begin in known:
        if begin < highest - window:
            return [one for _, one in sorted(zip(known, given, strict=True), key=lambda pair: pair[0])]
        highest = max(highest, begin)
    return given


def _beginning(path: str, form: Form | None, decode: Decoder) -> int | None:
    """The median of the first dates of a file, ms since 1970; None: it has none."""
    items = (decode(line, None, None) for line in islice(read_lines(path, form), _LINES))
    times = list(islice((item.time for item in items if isinstance(item, Item) and item.time >= 0), _DATES))
    return median_low(times) if times else None
