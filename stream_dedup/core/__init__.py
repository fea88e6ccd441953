"""The only door to the compiled core: C through ctypes, one library for all versions of Python.

`call` takes the name of a function of core.h and its arguments. It returns the function's number, or raises if that is
negative. A call releases the interpreter lock, so other threads run meanwhile. An array passes as its address, so it
must be contiguous; lengths pass beside it. A `Struct` passes by its address, and keeps the arrays that it points to.
A `Struct` and a record name their type of core.h, and constants that Python repeats have their names there;
tests/core/test_layout.py compares them.

>>> call("core_version") == VERSION
True
"""

import ctypes
import secrets
import threading
import weakref
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.errors import ConfigError, InputError

LIBRARY = Path(__file__).with_name("_core.so")
"""The build (build.py) compiles it from the C files beside this one."""
VERSION = 12
"""The version of what core.h declares, which the build compiles in. Raise it when core.h changes."""

POINTER, INT64, UINT64, DOUBLE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_double
FLOAT, BOOL = ctypes.c_float, ctypes.c_bool

_CORE_NO_MEMORY = -1
_BEGIN = ctypes.c_char * 0


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise ConfigError(
            f"the compiled core cannot be loaded: {error}. Install the package again; from a checkout: "
            "python stream_dedup/core/build.py"
        ) from error
    if library.core_version() != VERSION:
        raise ConfigError(
            f"{LIBRARY.name} is of another version of the sources; compile it again: python stream_dedup/core/build.py"
        )
    library.arena_new.argtypes, library.arena_new.restype = [UINT64], ctypes.c_void_p
    library.arena_free.argtypes, library.arena_free.restype = [ctypes.c_void_p], None
    return library


_LIBRARY = _load()


def fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    """Return fields of one type, for a `Struct` or a `record`.

    >>> fields("<i8", "begin end")
    [('begin', '<i8'), ('end', '<i8')]
    """
    return [(name, kind) for name in names.split()]


class Struct(ctypes.Structure):
    """A struct of core.h, with the same name and fields. Fields of type POINTER take an array, or None.

    The arrays stay alive as long as the struct does.
    """

    name: ClassVar[str]
    known: ClassVar[dict[str, type["Struct"]]] = {}

    def __init_subclass__(cls, name: str, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.name = name
        Struct.known[name] = cls

    def __init__(self, **values: Any) -> None:
        super().__init__()
        self.kept: dict[str, Any] = {}
        self.set(**values)

    def set(self, **values: Any) -> None:
        """Set some of the fields."""
        self.kept |= values
        for key, value in values.items():
            setattr(self, key, address(value) if isinstance(value, np.ndarray) else value)


RECORDS: dict[str, np.dtype[np.void]] = {}
"""The dtypes whose rows C reads as structs, by the struct's name."""


def record(name: str, fields: list[tuple[Any, ...]]) -> "np.dtype[np.void]":
    """Return an aligned dtype whose rows are the struct `name` of core.h."""
    RECORDS[name] = np.dtype(fields, align=True)
    return RECORDS[name]


def declared(name: str) -> list[list[str]]:
    """Return the rows of a table that the core declares for Python: a line each, their columns apart by tabs.

    >>> declared("similarity_fields")[0]
    ['float', 'apart']
    """
    text = ctypes.c_char_p.in_dll(_LIBRARY, name).value or b""
    return [row.split("\t") for row in text.decode().splitlines()]


def pointers(structs: Sequence[Struct]) -> NDArray[np.uint64]:
    """Return the addresses of structs, for a function that takes several. They must stay alive during the call."""
    return np.array([ctypes.addressof(struct) for struct in structs], np.uint64)


def copied(pointer: int, count: int, dtype: Any) -> NDArray[Any]:
    """Return a copy of the `count` elements that a function left in this thread's scratch memory, (count,)."""
    array: NDArray[Any] = np.empty(count, dtype)
    if count:
        ctypes.memmove(address(array), pointer, array.nbytes)
    return array


def address(array: NDArray[Any]) -> int:
    """Return where the elements of an array begin. Raises ValueError if they do not lie one after the other."""
    try:
        # Four times as fast as array.ctypes.
        return ctypes.addressof(_BEGIN.from_buffer(array))  # type: ignore[arg-type]
    except TypeError:  # also if the array is read-only
        if not array.flags.c_contiguous:
            raise ValueError(f"an array of shape {array.shape} is not contiguous; the core reads its memory") from None
        return int(array.ctypes.data)


def call(name: str, *arguments: Any) -> int:
    """Call a function of core.h: arrays, Structs, whole numbers (int64_t, uint64_t), floats (double), None (NULL).

    Raises MemoryError, and InputError if a size or a position from outside does not fit.
    """
    result: int = _function(name)(*map(_argument, arguments))
    if result >= 0:
        return result
    if result == _CORE_NO_MEMORY:
        raise MemoryError(f"{name}: no memory left; give the process more, or take smaller batches")
    raise InputError(f"{name}: a size or position does not fit its data (code {result}); the stored state is damaged")


@cache
def _function(name: str) -> Any:
    function = getattr(_LIBRARY, name)
    function.restype = ctypes.c_int64
    return function


def _argument(value: Any) -> Any:
    if isinstance(value, int):
        return INT64(value)
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(address(value))
    if isinstance(value, ctypes.Structure):
        return ctypes.byref(value)
    if isinstance(value, float):
        return DOUBLE(value)
    return None if value is None else value if isinstance(value, ctypes.c_void_p) else ctypes.c_int64(value)


class Utf8(NamedTuple):
    """The UTF-8 of n strings, as long as `strings` lives: its addresses, (n,) uintp, and sizes in bytes, (n,) int64."""

    strings: NDArray[np.object_]
    addresses: NDArray[np.uintp]
    sizes: NDArray[np.int64]


# A call through it holds Python's lock, and raises what Python's functions raise.
_LOCKED = ctypes.PyDLL(str(LIBRARY))
_LOCKED.utf8_of_strings.restype = ctypes.c_int64
_AS_UTF8 = ctypes.cast(ctypes.pythonapi.PyUnicode_AsUTF8AndSize, ctypes.c_void_p)


def utf8_of(strings: Sequence[str]) -> Utf8:
    """Return the UTF-8 of some strings, without a copy where they are ASCII; a lone surrogate becomes "?".

    PyUnicode_AsUTF8AndSize is part of Python's stable interface. It keeps the UTF-8 of other strings beside them.

    >>> utf8_of(["Elm", "Brücke"]).sizes.tolist()
    [3, 7]
    """
    n = len(strings)
    held, addresses, sizes = np.empty(n, np.object_), np.empty(n, np.uintp), np.empty(n, np.int64)
    held[:] = strings
    try:
        _LOCKED.utf8_of_strings(*map(_argument, (held, n, _AS_UTF8, addresses, sizes)))
    except UnicodeEncodeError:
        return utf8_of([text.encode("utf-8", "replace").decode() for text in strings])
    return Utf8(held, addresses, sizes)


_SECRET = secrets.randbits(64)


class _Arena:
    def __init__(self) -> None:
        self.pointer = ctypes.c_void_p(_LIBRARY.arena_new(_SECRET))
        if not self.pointer:
            raise MemoryError("no memory left for the compiled core")
        # Not at exit: a daemon thread may be in the core, and memory goes with the process.
        weakref.finalize(self, _LIBRARY.arena_free, self.pointer).atexit = False


_ARENAS = threading.local()


def arena(name: str = "own") -> ctypes.c_void_p:
    """Return this thread's scratch memory, for functions that take one. It is free again after the call.

    Under another name it is memory of its own, for a function that several calls continue.
    """
    if not hasattr(_ARENAS, name):
        setattr(_ARENAS, name, _Arena())
    pointer: ctypes.c_void_p = getattr(_ARENAS, name).pointer
    return pointer
