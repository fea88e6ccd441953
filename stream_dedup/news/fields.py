"""Find the fields of a JSON record: detect its shape and read the value of each field.

In: bytes, and field maps (presets.py, [item] fields). Out: the name of the shape, and a tuple of values in the order of
`FieldReader.fields`. One pass over the JSON decodes plain values directly. Other members that a field map names stay
raw bytes and are decoded only if the record's shape needs them. Members that no map names are skipped.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from types import NoneType
from typing import Any

import msgspec

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.news.presets import AUTO, FIELDS, PLAIN, PRESETS, alternatives, shape_of
from stream_dedup.news.values import BOM, fullest, fullest_uncut, is_filled, plain_value
from stream_dedup.settings import ItemSettings

Path = list[str]
Values = tuple[Any, ...]
Choice = Callable[[Sequence[str]], str]
Rivals = tuple[Callable[[Any], Any], Any]

# Objects and lists of a member that is decoded. A field has some dozen; the smallest take two bytes and, decoded, a
# hundred, so that a record of 4 MiB took 180 MiB.
_MOST_CONTAINERS = 200_000
_EMPTY = frozenset((b"null", b'""', b"[]", b"{}"))
_DECODE = msgspec.json.Decoder().decode
_NAMES = msgspec.json.Decoder(dict[str, msgspec.Raw])


def paths_of(settings: ItemSettings, shape: str = AUTO) -> dict[str, list[Path]]:
    """Map each field to its alternative paths, split at the dots. [item] fields take precedence over the preset.

    `shape` is the detected shape of the record; it counts only if the preset is `auto`.

    >>> paths_of(ItemSettings(fields={"title": "head.line"}))["title"]
    [['head', 'line']]
    """
    preset = settings.preset if settings.preset != AUTO else PLAIN if shape == AUTO else shape
    fields: dict[str, str] = dict([*PRESETS[preset].items(), *settings.fields.items()])
    if settings.fingerprint is not None:
        del fields["title"], fields["text"]
        fields["fingerprint"] = settings.fingerprint
    return {
        name: [_split(name if name == "fingerprint" else f"fields.{name}", each) for each in alternatives(path)]
        for name, path in fields.items()
    }


def names_in(value: bytes) -> list[str]:
    """List the top-level names of a record in their order; an empty list if it is not a JSON object.

    >>> names_in(b'{"headline": "T", "body": {"x": 1}}')
    ['headline', 'body']
    """
    try:
        return list(_NAMES.decode(value.removeprefix(BOM)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []


class FieldReader:
    """Reads the fields of JSON records with the field maps of the settings.

    >>> FieldReader(ItemSettings())(b'{"title": "T", "description": "x", "link": "/1"}')
    ('rss', ('/1', 'T', 'x', None, '/1', None))

    Raises ConfigError if a path is malformed. A call raises msgspec.MsgspecError, UnicodeDecodeError or RecursionError
    if the value is not a JSON object, and BadItem if a field has more objects and lists than any text.
    """

    def __init__(self, settings: ItemSettings) -> None:
        shapes = list(PRESETS) if settings.preset == AUTO else [settings.preset]
        maps = {shape: paths_of(settings, shape) for shape in shapes}
        self._maps, self._base = maps, shapes[0]
        base = maps[self._base]
        self.fields = tuple(base)
        # The fields that tell shapes apart: one that [item] fields maps is the same in every shape.
        deciding = tuple(name for name in FIELDS if name in self.fields and name not in settings.fields)
        tops = list(dict.fromkeys(path[0] for paths in maps.values() for each in paths.values() for path in each))
        at = {top: f"f{i}" for i, top in enumerate(tops)}
        # Fields whose path is a single name in the base map are decoded at once.
        eager = {each[0][0] for each in base.values() if len(each) == 1 and len(each[0]) == 1}
        members = [
            (at[top], Any if top in eager else msgspec.Raw, msgspec.field(default=None, name=top)) for top in tops
        ]
        self._decode = msgspec.json.Decoder(msgspec.defstruct("Record", members, kw_only=True, gc=False)).decode
        raw = [(name, msgspec.Raw, field) for name, _, field in members]
        self._decode_large = msgspec.json.Decoder(msgspec.defstruct("Large", raw, kw_only=True, gc=False)).decode
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
        # A feed has a few shapes; the bound keeps memory finite if a producer sends random names.
        self._shape = lru_cache(1024)(lambda filled: shape_of({top for top in filled if top}, deciding))

    def __call__(self, value: bytes) -> tuple[str, Values]:
        """Return the record's shape and the value of each of `fields`.

        A value is a string or a number if there is one, else the JSON value as it is; None or "" if the field is empty.
        """
        decode = self._decode if len(value) < 2 * _MOST_CONTAINERS else self._decode_large
        try:
            root = decode(value)
        except msgspec.DecodeError:
            if value[:3] != BOM:
                raise
            root = decode(value[3:])
        if self._plain is not None:
            values = self._plain(root)
            kinds = tuple(map(type, values))
            try:
                rivals = self._rivals[kinds]
            except KeyError:
                rivals = self._rivals[kinds] = self._rivals_of(kinds)
            # Unless a rival name is filled, no other shape finds more fields than the base (presets.shape_of).
            if "" not in values and (rivals is None or rivals[0](root) == rivals[1]):
                return self._base, values
        shape = self._shape_of(root) if len(self._maps) > 1 else self._base
        return shape, tuple([_found(root, *each) for each in self._takers[shape]])

    def _rivals_of(self, kinds: tuple[type, ...]) -> Rivals | None:
        """Return a getter of the names by which other shapes find the fields that the base misses, and the value that
        it returns if all of them are empty; None if the base finds every field.
        """
        if not set(kinds) <= {str, int, NoneType}:
            return type, None  # never equal: a value that is neither string nor number needs a closer look
        own = {path[0] for paths in self._maps[self._base].values() for path in paths}
        missing = [name for name, kind in zip(self.fields, kinds, strict=True) if kind is NoneType]
        tops = {path[0]: None for name in missing for paths in self._maps.values() for path in paths[name]}
        rivals = [self._at[top] for top in tops if top not in own]
        if not rivals:
            return None
        return attrgetter(*rivals), None if len(rivals) == 1 else (None,) * len(rivals)

    def _shape_of(self, root: Any) -> str:
        filled = [
            top if value is not None and _is_filled(value) else ""
            for top, value in zip(self._tops, msgspec.structs.astuple(root), strict=True)
        ]
        return self._shape(tuple(filled))


def _is_filled(value: Any) -> bool:
    return bytes(value) not in _EMPTY if type(value) is msgspec.Raw else is_filled(value)


def _choice(shape: str, name: str, settings: ItemSettings) -> Choice | None:
    """Return how to choose among several filled alternatives; None: the first one, as for paths in [item] fields."""
    if name != "text" or name in settings.fields:
        return None
    return fullest_uncut if shape == "newsapi" else fullest


def _found(root: Any, name: str, paths: Sequence[tuple[str, Path]], choose: Choice | None) -> Any:
    """Return the field's value, or else a value without a plain meaning, so that the error can name it."""
    texts: list[str] = []
    not_plain = None
    for member, path in paths:
        value = getattr(root, member)
        if value is None:
            continue
        value = _at(value, path)
        if name == "fingerprint":  # has no other forms: the value is right or refused
            if value is not None:
                return value
            continue
        if type(value) is not str:
            value = plain_value(name, value)
        if not is_filled(value):
            continue
        if isinstance(value, (dict, list)):
            not_plain = value if not_plain is None else not_plain
        elif choose is not None and isinstance(value, str):
            texts.append(value)
        else:
            return value
    return choose(texts) if choose is not None and texts else not_plain


def _at(value: Any, path: Path) -> Any:
    if type(value) is msgspec.Raw:
        content = bytes(value)
        if content[:1] != b'"' and content.count(b"{") + content.count(b"[") > _MOST_CONTAINERS:
            raise BadItem("type", f"a field has more than {_MOST_CONTAINERS:,} objects and lists; a text has none")
        value = _DECODE(content)
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
