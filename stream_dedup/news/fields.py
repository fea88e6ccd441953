"""Bytes of a JSON record -> which shape it has, and what stands in our fields.

In: bytes, and maps of field names (presets.py, [item] fields). Out: the shape's name and the values, tuples in the
order of `FieldReader.fields`. One pass over the JSON builds plain values at once and keeps all else that a map names as
raw bytes, which are decoded only where the record's shape needs them; what no map names is skipped.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec

from stream_dedup.errors import ConfigError
from stream_dedup.news.presets import AUTO, FIELDS, PLAIN, PRESETS, alternatives, shape_of
from stream_dedup.news.values import fullest, fullest_uncut, is_filled, plain_value
from stream_dedup.settings import ItemSettings

Path = list[str]
Values = tuple[Any, ...]
Choice = Callable[[Sequence[str]], str]

_BOM = b"\xef\xbb\xbf"
_EMPTY = (b"null", b'""', b"[]", b"{}")
_NAMES = msgspec.json.Decoder(dict[str, msgspec.Raw])


def paths_of(settings: ItemSettings, shape: str = AUTO) -> dict[str, list[Path]]:
    """Our field -> alternatives, each the parts of a dotted path; the settings' own fields win over the preset.

    `shape` is the record's, where the settings leave it to the record.

    >>> paths_of(ItemSettings(fields={"title": "head.line"}))["title"]
    [['head', 'line']]
    """
    preset = settings.preset if settings.preset != AUTO else PLAIN if shape == AUTO else shape
    fields: dict[str, str] = {**PRESETS[preset], **settings.fields}
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
        return list(_NAMES.decode(value.removeprefix(_BOM)))
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
        self._first = shapes[0]
        self.fields = tuple(maps[self._first])
        # What decides on a shape: a field that the settings name themselves is the same in all of them.
        self._deciding = tuple(name for name in FIELDS if name in self.fields and name not in settings.fields)
        tops = list(dict.fromkeys(path[0] for paths in maps.values() for each in paths.values() for path in each))
        at = {top: f"f{i}" for i, top in enumerate(tops)}
        first = maps[self._first]
        # Those that are one plain name in the first map are built at once, in the order of a plain record.
        eager = {each[0][0] for each in first.values() if len(each) == 1 and len(each[0]) == 1}
        members = [
            (at[top], Any if top in eager else msgspec.Raw, msgspec.field(default=None, name=top)) for top in tops
        ]
        self._decode = msgspec.json.Decoder(msgspec.defstruct("Record", members, kw_only=True, gc=False)).decode
        self._tops, self._all = tops, _getter([at[top] for top in tops])
        self._getters = {
            shape: [
                (name, [(at[path[0]], path[1:]) for path in paths[name]], _choice(shape, name, settings))
                for name in self.fields
            ]
            for shape, paths in maps.items()
        }
        self._plain: Callable[[Any], Values] | None = None
        if all(len(each) == 1 and len(each[0]) == 1 for each in first.values()):
            self._plain = _getter([at[each[0][0]] for each in first.values()])
            self._rivals = [_rivals(maps, self._first, name, at) for name in self.fields]
        self._is_auto = len(maps) > 1
        self._shape = cache(lambda names: shape_of(names, self._deciding))

    def __call__(self, value: bytes) -> tuple[str, Values]:
        """The record's shape, and what it has in each of `fields`: a string or number where there is one (else the JSON
        that stands there), None where nothing is.
        """
        root = self._decode(value[3:] if value[:3] == _BOM else value)
        if self._plain is not None:
            values = self._plain(root)
            if self._is_first(root, values):
                return self._first, values
        shape = self._shape_of(root) if self._is_auto else self._first
        return shape, tuple(_found(root, *each) for each in self._getters[shape])

    def _is_first(self, root: Any, values: Values) -> bool:
        """Whether the values are all there is to read: they mean what they say, and none that is missing stands under
        another shape's name. Then no other shape can find more (presets.shape_of).
        """
        for value, rivals in zip(values, self._rivals, strict=True):
            kind = type(value)
            if kind is str and value or kind is int:
                continue
            if is_filled(value) or rivals(root):
                return False
        return True

    def _shape_of(self, root: Any) -> str:
        names = (top for top, value in zip(self._tops, self._all(root), strict=True) if _is_there(value))
        return self._shape(frozenset(names))


def _rivals(maps: Mapping[str, Mapping[str, list[Path]]], first: str, name: str, at: Mapping[str, str]) -> Any:
    """Tells of a record whether it has a field by another name than the first shape's."""
    own = {path[0] for paths in maps[first].values() for path in paths}
    tops = {path[0]: None for paths in maps.values() for path in paths[name] if path[0] not in own}
    if not tops:
        return lambda root: False
    get, none = _getter([at[top] for top in tops]), (None,) * len(tops)
    return lambda root: get(root) != none


def _getter(members: Sequence[str]) -> Callable[[Any], Values]:
    if len(members) == 1:
        get = attrgetter(members[0])
        return lambda root: (get(root),)
    return attrgetter(*members)


def _is_there(value: Any) -> bool:
    return bytes(value) not in _EMPTY if isinstance(value, msgspec.Raw) else is_filled(value)


def _choice(shape: str, name: str, settings: ItemSettings) -> Choice | None:
    """Which of several values counts, None: the first. Alternatives that the settings name are in order of preference."""
    if name != "text" or name in settings.fields:
        return None
    return fullest_uncut if shape == "newsapi" else fullest


def _found(root: Any, name: str, paths: Sequence[tuple[str, Path]], choose: Choice | None) -> Any:
    """The value that is there; else one that has no plain meaning, so that it can be said."""
    texts: list[str] = []
    strange = None
    for member, path in paths:
        value = _at(getattr(root, member), path)
        if name == "fingerprint":  # 64 bits have no other forms: what is there is right or refused
            if value is not None:
                return value
            continue
        value = plain_value(name, value)
        if not is_filled(value):
            continue
        if isinstance(value, dict | list):
            strange = value if strange is None else strange
        elif choose is not None and isinstance(value, str):
            texts.append(value)
        else:
            return value
    return choose(texts) if choose is not None and texts else strange


def _at(value: Any, path: Path) -> Any:
    if isinstance(value, msgspec.Raw):
        value = msgspec.json.decode(value)
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
