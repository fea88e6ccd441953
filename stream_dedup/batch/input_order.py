"""Choose the order in which input files are read: by their dates, if the given order goes back in time.

In: the inputs as given. Out: the same inputs. The order decides which item is the copy, and a watermark never goes
back, so the file of 2022 must come before that of 2024, however the shell expands `*.jsonl`. Only the beginning of each
file is read. Standard input and pipes cannot be read twice: if there is one, the given order stays.
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import median_low

from stream_dedup.batch.lines import STDIN, read_lines
from stream_dedup.batch.rows import FileFormat
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings

# The median of 25 dates is right even if a dozen are wrong; after 1,000 lines without dates a file counts as undated.
_DATES = 25
_LINES = 1000


def order_by_time(inputs: Sequence[str], settings: Settings, file_format: FileFormat | None = None) -> list[str]:
    """The inputs sorted by the dates at their beginnings if these go back by more than a window, else as given.

    They stay as given, too, if one has no dates or is no regular file. Raises InputError if one cannot be read.
    """
    given = list(inputs)
    if len(given) < 2 or any(name == STDIN or not Path(name).is_file() for name in given):
        return given
    decode = Decoder(settings.item)
    starts = [_first_date(name, file_format, decode, settings.worker.max_record_bytes) for name in given]
    dates = [start for start in starts if start is not None]
    if len(dates) < len(given):
        return given
    window = settings.window.length_ms
    latest = dates[0]
    for date in dates:
        if date < latest - window:
            return [name for _, name in sorted(zip(dates, given, strict=True), key=lambda pair: pair[0])]
        latest = max(latest, date)
    return given


def _first_date(path: str, file_format: FileFormat | None, decode: Decoder, most: int) -> int | None:
    """The median of the first dates of a file, ms since 1970; None if it has no dates."""
    items = (decode(line, None, None) for line in islice(read_lines(path, file_format, most), _LINES))
    times = list(islice((item.time for item in items if isinstance(item, Item) and item.time >= 0), _DATES))
    return median_low(times) if times else None
