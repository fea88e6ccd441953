"""Bytes of a JSON record -> which shape it has, and what stands in our fields.

In: bytes, and maps of field names (presets.py, [item] fields). Out: the shape's name and the values, tuples in the
order of `FieldReader.fields`. One pass over the JSON builds plain values at once and keeps all else that a map names as
raw bytes, which are decoded only where the record's shape needs them; what no map names is skipped.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from types import NoneType
from typing import Any

import msgspec

from stream_dedup.errors import ConfigError
from stream_dedup.news.presets import AUTO, FIELDS, PLAIN, PRESETS, alternatives, shape_of
from stream_dedup.news.values import BOM, fullest, fullest_uncut, is_filled, plain_value
from stream_dedup.settings import ItemSettings

Path = list[str]
Values = tuple[Any, ...]
Choice = Callable[[Sequence[str]], str]
Rivals = tuple[Callable[[Any], Any], Any]

_EMPTY = frozenset((b"null", b'""', b"[]", b"{}"))
_DECODE = msgspec.json.Decoder().decode
_NAMES = msgspec.json.Decoder(dict[str, msgspec.Raw])


def paths_of(settings: ItemSettings, shape: str = AUTO) -> dict[str, list[Path]]:
    """Our field -> alternatives, each the parts of a dotted path; the settings' own fields win over the preset.

    `shape` is the record's, where the settings leave it to the record.

    >>> paths_of(ItemSettings(fields={"title": "head.line"}))["title"]
    [['head', 'line']]
    """
    preset = settings.preset if settings.preset != AUTO else PLAIN if shape == AUTO else shape
    fields: dict[str, str] = {name: path for one in (PRESETS[preset], settings.fields) for name, path in one.items()}
    if settings.fingerprint is not None:
        del fields["title"], fields["text"]
        fields["fingerprint"] = settings.fingerprint
    return {
        name: [_split(name if name == "fingerprint" else f"fields.{name}", one) for one in alternatives(path)]
        for name, path in fields.items()
    }


def names_in(value: bytes) -> list[str]:
    """The names that a record has at its top level, in its order; none if it is no JSON object.

    >>> names_in(b'{"headline": "T", "body": {"x": 1}}')
    ['headline', 'body']
    """
    try:
        return list(_NAMES.decode(value.removeprefix(BOM)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []


class FieldReader:
    """Reads records by the settings' maps.

    >>> FieldReader(ItemSettings())(b'{"title": "T", "description": "x", "link": "/1"}')
    ('rss', ('/1', 'T', 'x', None, '/1', None))

    Raises ConfigError for a field map that is no path; calls raise msgspec.MsgspecError, UnicodeDecodeError and
    RecursionError for what is no JSON object.
    """

    def __init__(self, settings: ItemSettings) -> None:
        shapes = list(PRESETS) if settings.preset == AUTO else [settings.preset]
        maps = {shape: paths_of(settings, shape) for shape in shapes}
        self._maps, self._base = maps, shapes[0]
        base = maps[self._base]
        self.fields = tuple(base)
        # What decides on a shape: a field that the settings name themselves is the same in all of them.
        deciding = tuple(name for name in FIELDS if name in self.fields and name not in settings.fields)
        tops = list(dict.fromkeys(path[0] for paths in maps.values() for each in paths.values() for path in each))
        at = {top: f"f{i}" for i, top in enumerate(tops)}
        # Those that are one plain name in the base map are built at once.
        eager = {each[0][0] for each in base.values() if len(each) == 1 and len(each[0]) == 1}
        members = [
            (at[top], Any if top in eager else msgspec.Raw, msgspec.field(default=None, name=top)) for top in tops
        ]
        self._decode = msgspec.json.Decoder(msgspec.defstruct("Record", members, kw_only=True, gc=False)).decode
        self._tops, self._at = tops, at
        self._takers = {
            shape: [
                (name, [(at[path[0]], path[1:]) for path in paths[name]], _choice(shape, name, settings))
                for name in self.fields
            ]
            for shape, paths in maps.items()
        }
        is_plain = all(len(each) == 1 and len(each[0]) == 1 for each in base.values())
        self._plain = attrgetter(*(at[each[0][0]] for each in base.values())) if is_plain else None
        self._rivals: dict[tuple[type, ...], Rivals | None] = {}
        # A feed has a few shapes; whoever sends names at random must not fill the memory.
        self._shape = lru_cache(1024)(lambda there: shape_of({top for top in there if top}, deciding))

    def __call__(self, value: bytes) -> tuple[str, Values]:
        """The record's shape, and what it has in each of `fields`: a string or number where there is one (else the JSON
        that stands there), None or "" where nothing is.
        """
        try:
            root = self._decode(value)
        except msgspec.DecodeError:
            if value[:3] != BOM:
                raise
            root = self._decode(value[3:])
        if self._plain is not None:
            values = self._plain(root)
            kinds = tuple(map(type, values))
            try:
                rivals = self._rivals[kinds]
            except KeyError:
                rivals = self._rivals[kinds] = self._rivals_of(kinds)
            # Without rivals no other shape can find more than the base does (presets.shape_of).
            if "" not in values and (rivals is None or rivals[0](root) == rivals[1]):
                return self._base, values
        shape = self._shape_of(root) if len(self._maps) > 1 else self._base
        return shape, tuple([_found(root, *each) for each in self._takers[shape]])

    def _rivals_of(self, kinds: tuple[type, ...]) -> Rivals | None:
        """What takes out of a record the names by which other shapes know what the base did not find, and what it takes
        where there are none; None: the base found everything.
        """
        if not set(kinds) <= {str, int, NoneType}:
            return type, None  # no record is without a type: what is no string or number needs a closer look
        own = {path[0] for paths in self._maps[self._base].values() for path in paths}
        missing = [name for name, kind in zip(self.fields, kinds, strict=True) if kind is NoneType]
        tops = {path[0]: None for name in missing for paths in self._maps.values() for path in paths[name]}
        rivals = [self._at[top] for top in tops if top not in own]
        if not rivals:
            return None
        return attrgetter(*rivals), None if len(rivals) == 1 else (None,) * len(rivals)

    def _shape_of(self, root: Any) -> str:
        there = [
            top if value is not None and _is_there(value) else ""
            for top, value in zip(self._tops, msgspec.structs.astuple(root), strict=True)
        ]
        return self._shape(tuple(there))


def _is_there(value: Any) -> bool:
    return bytes(value) not in _EMPTY if type(value) is msgspec.Raw else is_filled(value)


def _choice(shape: str, name: str, settings: ItemSettings) -> Choice | None:
    """Which of several values counts, None: the first, as where the settings name the alternatives themselves."""
    if name != "text" or name in settings.fields:
        return None
    return fullest_uncut if shape == "newsapi" else fullest


def _found(root: Any, name: str, paths: Sequence[tuple[str, Path]], choose: Choice | None) -> Any:
    """The value that is there; else one that has no plain meaning, so that it can be said."""
    texts: list[str] = []
    strange = None
    for member, path in paths:
        value = getattr(root, member)
        if value is None:
            continue
        value = _at(value, path)
        if name == "fingerprint":  # 64 bits have no other forms: what is there is right or refused
            if value is not None:
                return value
            continue
        if type(value) is not str:
            value = plain_value(name, value)
        if not is_filled(value):
            continue
        if isinstance(value, (dict, list)):
            strange = value if strange is None else strange
        elif choose is not None and isinstance(value, str):
            texts.append(value)
        else:
            return value
    return choose(texts) if choose is not None and texts else strange


def _at(value: Any, path: Path) -> Any:
    if type(value) is msgspec.Raw:
        value = _DECODE(value)
    for part in path:
        if isinstance(value, list):
            value = value[int(part)] if part.isdigit() and int(part) < len(value) else None
        elif isinstance(value, dict):
            value = value.get(part)
        else:
            return None
    return value


def _split(name: str, path: str) -> Path:
    parts = path.split(".")
    if not all(parts) or parts[0].isdigit():
        raise ConfigError(f"[item] {name} = {path!r} is no dotted path such as 'head.line' or 'list.0.value'")
    return parts
