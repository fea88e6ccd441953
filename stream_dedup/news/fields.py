"""Find the fields of a JSON record: detect its shape and read the value of each field.

The field maps are the presets of known formats, what names mean in any other record (both names.py), and [item] fields.
Each record is read independently of earlier ones: a worker may start anywhere, several workers may share a feed, and a
feed may mix formats. Only the names of the filled members decide where to look, so this is computed once for each set
of names.

The text is the longest one that is an article (plain_values.py), whatever names the preset has. An object that only
wraps an item lends it its fields, as `data.title`. So do columns of that name in tables.
"""

from codecs import BOM_UTF8
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.loose_json import decode_json, decode_object, loads, tolerant
from stream_dedup.news.formats import content_of
from stream_dedup.news.item_lists import flat, items_in, query_of
from stream_dedup.news.names import (
    AUTO,
    ENVELOPE,
    FIELDS,
    NODES,
    PLAIN,
    PRESETS,
    SPECIAL,
    WRAPPERS,
    alternatives,
    meant_by,
    plain_name,
    shape_of,
)
from stream_dedup.news.plain_values import article, is_filled, is_moment, plain_value, rich_text, text_of, with_time
from stream_dedup.settings import ItemSettings

Path = list[str]
Values = tuple[Any, ...]

# Nodes have captions and teasers beside the text: a plain text that is nearly as long is the article.
_FULLER = 1.25
# Objects and lists in a member that is decoded. A field has some dozen. The smallest take two bytes, and a hundred when
# they are decoded: a record of 4 MiB took 180 MiB.
_MOST_CONTAINERS = 200_000
_CLOSING = ("]", "}")  # the end of NewsAPI's note, and of an object or list in a string
_NAMES = tolerant(msgspec.json.Decoder(dict[str, msgspec.Raw]).decode)


class _Place(NamedTuple):
    """Where a field may be."""

    field: str
    paths: list[tuple[str, Path, str]]  # members, a path in each, and its name, in this order
    is_mapped: bool  # by the settings: the first filled one counts


def paths_of(settings: ItemSettings, shape: str = AUTO) -> dict[str, list[Path]]:
    """Map each field to its alternative paths, split at the dots. [item] fields take precedence over the preset.

    The detected `shape` of the record counts only if the preset is `auto`.

    >>> paths_of(ItemSettings(fields={"title": "head.line"}))["title"]
    [['head', 'line']]
    """
    preset = settings.preset if settings.preset != AUTO else PLAIN if shape == AUTO else shape
    fields: dict[str, str] = dict([*PRESETS[preset].items(), *settings.fields.items()])
    if settings.has_fingerprints:
        del fields["title"], fields["text"]
    return {
        name: [_split(f"fields.{name}", alternative) for alternative in alternatives(path)]
        for name, path in fields.items()
    }


def names_in(value: bytes) -> list[str]:
    """List the top-level names of a record in their order; an empty list if it is not a JSON object.

    >>> names_in(b'{"headline": "T", "body": {"x": 1}}')
    ['headline', 'body']
    """
    try:
        return list(_NAMES(value.removeprefix(BOM_UTF8)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []


class FieldReader:
    """Reads the fields of JSON records with the field maps of the settings.

    >>> FieldReader(ItemSettings()).fields_of(b'{"title": "T", "description": "x", "link": "/1"}')
    ('rss', ('/1', 'T', 'x', None, '/1', None))

    Raises ConfigError if a path is malformed. A call raises msgspec.MsgspecError, UnicodeDecodeError or RecursionError
    if the value is not a JSON object, and BadItem if a field has more objects and lists than any text.
    """

    def __init__(self, settings: ItemSettings) -> None:
        shapes = list(PRESETS) if settings.preset == AUTO else [settings.preset]
        self._maps = {shape: paths_of(settings, shape) for shape in shapes}
        self.fields = tuple(self._maps[shapes[0]])
        self._is_auto = settings.preset == AUTO
        self._mapped = frozenset(settings.fields)
        self._query = query_of(settings.query) if settings.query else None
        # If the settings name one of these members, or a field in it, the records have another meaning for it.
        mapped = [path for name in self._mapped & {*self.fields} for path in self._maps[shapes[0]][name]]
        self._tops = frozenset(path[0] for path in mapped)
        self._wrappers = WRAPPERS - {path[0] for path in mapped if len(path) == 1}
        # A feed has a few shapes; the bound keeps memory finite if a producer sends random names.
        self._places = lru_cache(256)(self._find_places)

    def fields_of(self, json: bytes) -> tuple[str, Values]:
        """Return the record's shape and the value of each of `fields`; ENVELOPE and no values for an envelope.

        A value is a string or a number if there is one, else the JSON value as it is; None or "" if the field is empty.
        """
        record = _members(json)
        if self._query is not None or not SPECIAL.isdisjoint(record):
            if content_of(record) is not None or self._is_envelope(record):
                return ENVELOPE, ()
            record = self._opened(record)
        shape, places, is_answer = self._places(_filled_names(record))
        if is_answer and _says_error(record):
            raise BadItem(
                "answer", f"the answer of a service that failed, and no news: {_ENCODE(record)[:_SHOWN].decode()}"
            )
        values = []
        for member, place in places:
            value = record[member] if member is not None else None
            # A text may end with NewsAPI's note, or be nodes in JSON.
            if type(value) is not str or value.endswith(_CLOSING):
                value = _read_place(record, place)[0] if place.paths else None
            values.append(value)
        return shape, tuple(values)

    def names_of(self, json: bytes) -> tuple[dict[str, str], list[str]]:
        """Return the name under which each field of a record was found, and the names of the other texts."""
        record = self._opened(_members(json))
        _, places, _ = self._places(_filled_names(record))
        names = {place.field: name for _, place in places if (name := _read_place(record, place)[1])}
        paths = next((place.paths for _, place in places if place.field == "text"), [])
        texts = [name for top, _, name in paths if isinstance(text_of(record[top]), str)]
        return names, [name for name in texts if name != names.get("text")]

    def _is_envelope(self, record: dict[str, Any]) -> bool:
        if record.get("specversion") is not None:
            return True
        lists = items_in(record).read if self._query is None else []
        return any(listing.path.partition(".")[0] not in self._tops for listing in lists)

    def _opened(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a record: those of the query, and those that its wrappers lend."""
        if self._query is not None:
            record = self._query.item({name: _at(value, []) for name, value in record.items()})
        return flat(record, self._wrappers)

    def _find_places(self, names: tuple[str, ...]) -> tuple[str, list[tuple[str | None, _Place]], bool]:
        """Return the shape of records with these filled names, the places of the fields, and if it may be an error.

        Before each place stands the member that is the field, if there is no other choice.
        """
        deciding = tuple(name for name in FIELDS if name in self.fields)
        shape = shape_of({*names}, deciding) if self._is_auto else next(iter(self._maps))
        places = list[tuple[str | None, _Place]]()
        for field, paths in self._maps[shape].items():
            candidates = [
                (top, path[end:], ".".join(path))
                for path in paths
                for end in [next((n for n in range(len(path), 0, -1) if ".".join(path[:n]) in names), 0)]
                if (top := ".".join(path[:end]))
            ]
            if self._is_auto and field not in self._mapped:
                meanings = meant_by(names, field)
                if field == "text":
                    meanings += [name for name in names if plain_name(name) in NODES]
                candidates += [(name, [], name) for name in meanings if (name, [], name) not in candidates]
            # Among several texts the longest counts, among several dates the first readable one.
            has_choice = len(candidates) > 1 and field in ("text", "published")
            is_sure = (
                candidates and not candidates[0][1] and not has_choice and plain_name(candidates[0][0]) not in NODES
            )
            places.append((candidates[0][0] if is_sure else None, _Place(field, candidates, field in self._mapped)))
        found = {place.field: {top for top, _, _ in place.paths} for _, place in places if place.paths}
        return shape, places, found.keys() == {"text"} and found["text"] <= _MESSAGES and not _ERRORS.isdisjoint(names)


def _filled_names(record: dict[str, Any]) -> tuple[str, ...]:
    if all(record.values()):  # most records
        return tuple(record)
    return tuple([name for name, value in record.items() if value or value == 0])


# An answer that says that a service failed has such members, and nothing of an article.
_MESSAGES = frozenset(("message", "description", "error_description", "detail", "msg"))
_ERRORS = frozenset(("status", "error", "errors", "code", "statusCode", "ok", "success"))
_FAILED = frozenset(("error", "fail", "failed", "failure"))
_SHOWN = 200
_ENCODE = msgspec.json.Encoder(enc_hook=str).encode


def _says_error(record: dict[str, Any]) -> bool:
    states = [record.get(name) for name in ("status", "code", "statusCode")]
    return (
        any(isinstance(state, int) and 400 <= state < 600 for state in states)
        or str(states[0]).lower() in _FAILED
        or bool(record.get("error") or record.get("errors"))
        or any(record.get(name) is False for name in ("ok", "success"))
    )


def _members(value: bytes) -> dict[str, Any]:
    """Decode a JSON object. Large members, and those that cannot be decoded, stay raw: most are not needed."""
    try:
        if len(value) < 2 * _MOST_CONTAINERS:
            return decode_object(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if isinstance(error, msgspec.ValidationError):
            raise
    plain = value.removeprefix(BOM_UTF8)
    try:
        return {name: _member(raw) for name, raw in _NAMES(plain).items()}
    except msgspec.DecodeError as error:
        if isinstance(error, msgspec.ValidationError):
            raise
        try:
            (record,) = loads(plain)
        except ValueError:
            raise error from None
        if not isinstance(record, dict):
            raise
        return record


def _member(raw: msgspec.Raw) -> Any:
    try:
        return raw if _is_large(raw) else decode_json(bytes(raw))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return raw


def _is_large(raw: msgspec.Raw) -> bool:
    content = bytes(raw)
    return content[:1] != b'"' and content.count(b"{") + content.count(b"[") > _MOST_CONTAINERS


def _read_place(record: dict[str, Any], place: _Place) -> tuple[Any, str]:
    """Return the field's value and its name, or else a value without a plain meaning, so that the error can name it."""
    field, paths, is_mapped = place
    values: list[tuple[Any, str]] = []
    nodes: list[tuple[str, str]] = []
    not_plain: tuple[Any, str] = None, ""
    for top, path, name in paths:
        value = _at(record[top], path)
        if field == "fingerprint":  # has no other forms: the value is right or refused
            if value is not None:
                return value, name
            continue
        if field == "published" and not values and is_moment(value):
            return value, name  # as `with_time` would, without the other dates: half of what a record takes
        if field == "text":
            is_nodes = not path and plain_name(top) in NODES
            if is_nodes and isinstance(value, list) and not any(isinstance(element, (dict, list)) for element in value):
                continue
            text = rich_text(value) if is_nodes and not isinstance(value, str) else text_of(value)
            if text is not value and isinstance(text, str) and text != plain_value(field, value):
                nodes.append((text, name))
                continue
            value = None if is_nodes and text is value else text
        if type(value) is not str or value.endswith(_CLOSING):
            value = plain_value(field, value)
        if isinstance(value, (dict, list)):
            not_plain = not_plain if not_plain[1] or not value else (value, name)
        elif is_filled(value):
            values.append((value, name))
    if field == "published":
        return with_time(values or [not_plain])
    texts = [reading for reading in values if isinstance(reading[0], str)]
    most = max((len(text) for text, _ in texts), default=0) if nodes else 0
    texts += [node for node in nodes if len(node[0]) > _FULLER * most]
    if field == "text" and texts and not is_mapped:
        text = article([text for text, _ in texts])
        return text, next(name for candidate, name in texts if candidate.startswith(text))
    return ((field != "id" and texts) or values or [not_plain])[0]


def _at(value: Any, path: Path) -> Any:
    """Return what stands at a path. A name selects from each object of a list, a number one of its elements."""
    if type(value) is msgspec.Raw:
        if _is_large(value):
            raise BadItem("type", f"a field has more than {_MOST_CONTAINERS:,} objects and lists; a text has none")
        value = decode_json(bytes(value))
    for part in path:
        if isinstance(value, list) and part.isdigit():
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, list):
            value = [element[part] for element in value if isinstance(element, dict) and part in element]
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _split(name: str, path: str) -> Path:
    parts = path.removesuffix(".").split(".")  # the name of a column may end with a dot
    if not all(parts) or parts[0].isdigit():
        raise ConfigError(f"[item] {name} = {path!r} is no dotted path such as 'head.line'")
    parts[-1] += path[len(".".join(parts)) :]
    return parts
