"""`Table`, the base of every settings table, and the value types that several tables share."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


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


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Share = Annotated[float, Field(ge=0, le=1)]


class Table(BaseModel):
    """The base of a table of the TOML file. An unknown name in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, validated like those of a file; pydantic's takes any name and value."""
        return type(self).model_validate(dict(self) | dict(update or {}))
