"""What memory a feed needs, in its operator's words: items a day, window, share held back.

In: settings and these numbers. Out: `Sizing`, which `stream-dedup plan --per-day` prints. Pure. The room that a memory
has is that of the running worker (index/footprint.py), as in the table of deploy/sizing.md.
"""

import math
from dataclasses import dataclass
from datetime import timedelta

from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import FEWEST, MEMORY_SLACK, footprint, most_originals, peak_bytes
from stream_dedup.settings import Settings
from stream_dedup.settings.memory import needed

_STEP = 2**29  # memory is proposed in halves of a GiB
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Sizing:
    """What `originals` in a window of `length` need: `memory`, the bytes of [worker] memory with room for them.

    given: bytes of the request, None: not asked. room: originals that these have room for. fitting: the window that
    fits into them.
    """

    originals: int
    length: timedelta
    memory: int
    given: int | None = None
    room: int = 0
    fitting: timedelta = timedelta()

    @property
    def fits(self) -> bool:
        """Whether the given memory has room for all."""
        return self.room >= self.originals

    def toml(self) -> str:
        """The settings as TOML: of the given memory if that suffices."""
        memory = self.given if self.given and self.fits else self.memory
        return f'[worker]\nmemory = "{memory / 2**30:g}G"\n\n{self.window(self.length)}'

    def window(self, length: timedelta) -> str:
        """A window as TOML.

        >>> Sizing(1, _DAY, 1).window(timedelta(days=4.66))
        '[window]\\nlength = "111h"\\n'
        """
        for unit, name in ((_DAY, "d"), (timedelta(hours=1), "h")):
            if length >= unit and (unit is not _DAY or not length % unit):
                return f'[window]\nlength = "{length // unit}{name}"\n'
        return f'[window]\nlength = "{length // timedelta(minutes=1)}m"\n'


def sizing(settings: Settings, per_day: int, share_held: float, memory: int | None = None) -> Sizing:
    """Compute what `per_day` items a day need in the window of `settings`.

    Raises ConfigError if no process can hold them, or `memory` cannot hold a worker.

    >>> from stream_dedup.settings import load_settings
    >>> found = sizing(load_settings(), 200_000, 0.2, 2**31)
    >>> found.originals, found.fits, found.room
    (1120000, True, 1400000)
    """
    length = settings.window.length
    originals = max(1, math.ceil(per_day * (1 - share_held) * (length / _DAY)))
    scheme = Scheme(settings.fingerprint)

    def room(size: int, fewest: int = 0) -> int:
        tables = {"worker": {"memory": size}, "window": {"max_originals": None}}
        changed = {name: getattr(settings, name).model_copy(update=values) for name, values in tables.items()}
        return most_originals(settings.model_copy(update=changed), scheme, fewest=fewest)

    least = needed(MEMORY_SLACK * peak_bytes(originals, footprint(scheme, originals)))
    size = -(-least // _STEP) * _STEP
    while room(size) < originals:  # it is rounded down to two digits, and bodies may be kept
        size += max(_STEP, size // 50 // _STEP * _STEP)
        if size > 3 * least and room(size) == room(2 * size):
            raise ConfigError(
                f"{originals:,} originals are more than one process can hold ({room(size):,}): take a shorter window, "
                "or divide the stream (deploy/sizing.md, When one worker is not enough)"
            )
    if memory is None:
        return Sizing(originals, length, size)
    has = room(memory, FEWEST)
    return Sizing(originals, length, size, memory, has, length * min(1.0, has / originals))
