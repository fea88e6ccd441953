"""`Table`, the base of every settings table, and the value types that several tables share."""

import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_LARGEST = 10**15  # more than any machine has, and exact in a float
_KIBI = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_duration(value: Any) -> Any:
    """Parse a duration such as '7d', '36h', '90s' or '250ms'; return anything but text and numbers as it is.

    >>> parse_duration("36h")
    datetime.timedelta(days=1, seconds=43200)
    """
    if isinstance(value, str):
        text = value.strip()
        for unit, seconds in _UNITS.items():
            number = text.removesuffix(unit).strip()
            if number != text and number.isascii() and number.replace(".", "", 1).isdecimal():
                try:
                    return timedelta(seconds=float(number) * seconds)
                except OverflowError:
                    raise ValueError("this duration is too long; a window is usually a few days") from None
    if isinstance(value, str | int | float):  # a number without a unit is ambiguous
        raise ValueError("write a duration as a number and a unit: 250ms, 30s, 15m, 36h, 7d")
    return value


def parse_size(value: Any) -> Any:
    """Parse a size such as '1.5G'; K, M, G and T are powers of 1024. Return anything but text as it is.

    >>> parse_size("1.5G"), parse_size("512Mi"), parse_size(1048576)
    (1610612736, 536870912, 1048576)
    """
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]?)i?B?", value.strip(), re.I | re.A)
    size = float(match[1]) * _KIBI[match[2].upper()] if match else math.inf
    if size > _LARGEST:
        raise ValueError("write a size as a number and K, M, G or T: 512M, 1.5G")
    return int(size)


Size = Annotated[int, BeforeValidator(parse_size)]
Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Share = Annotated[float, Field(ge=0, le=1)]


class Table(BaseModel):
    """The base of a table of the TOML file. An unknown name in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, validated like those of a file; pydantic's takes any name and value.

        Only what was set is copied: a default that follows from another setting is derived again.
        """
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self).model_validate(given | dict(update or {}))
