"""numba's `njit` for the kernels, with machine code that the wheel and the image bring along.

In: a kernel. Out: its dispatcher, which looks for machine code in `SHIPPED` and then in numba's own cache, where it
also keeps what it compiles. `python -m stream_dedup.precompile` fills the folder, for one version each of numba, Python
and this code. With any other numba compiles the kernels as always: half a minute or more, once.

What is shipped is compiled for x86-64-v3: every x86-64 server since 2015 runs it, as fast as code for the processor
itself; `generic` took 10 to 20 % more time.

numba has no public way to load it: a locator names one folder, to which numba must be able to write, and the keys of
its cache name the very processor. NUMBA_CPU_NAME would rename that, for all code in the process. So `_prefer` replaces
one method of a dispatcher's cache, under the one version of numba that wrote the code. Of its private names it uses
`_cache` and `_rebuild`, and `precompile` uses `_reduce`. The files are those of numba's cache, read and written by it.

numba stamps its cache with the file of a kernel alone, though a kernel contains code and constants of other files:
after an update in place it would run code of the former version. `Locator`, which is public, stamps it with all files.
"""

import hashlib
import platform
from collections.abc import Callable
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding
from numba.core import caching

PACKAGE = Path(__file__).parent
ABI = EXTENSION_SUFFIXES[0].split(".")[1]
"""Python's version, the system and the architecture, as in the names of extension modules."""
SHIPPED = PACKAGE / "machine_code" / ABI
MADE_FOR = "made-for"
"""The file in `SHIPPED` that names the version of numba, and the stamp of the source."""
LEVEL = "x86-64-v3" if platform.machine().lower() in {"x86_64", "amd64"} else "generic"
"""The processor of shipped machine code, by LLVM's name. All processors of an architecture run `generic`."""
KERNELS: dict[str, Any] = {}
"""The dispatcher of every kernel that is cached, by the kernel's name."""
# What x86-64-v3 has beyond the x86-64 of 2003, by LLVM's names.
_FEATURES = {
    *("avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt"),
    *("movbe", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave"),
}
# Kernels, and the constants in them.
_SOURCES = ("fingerprint/*.py", "index/*.py", "dedup/*.py", "batch/pair*.py", "evaluate/exact.py")


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's decorator. With `cache` the kernel is looked up in the shipped machine code first."""

    def compiled(function: Callable[..., Any]) -> Any:
        users = numba.config.CACHE_LOCATOR_CLASSES
        numba.config.CACHE_LOCATOR_CLASSES = users or f"{__name__}.Locator,ZipCacheLocator"
        try:
            dispatcher = numba.njit(cache=cache, **options)(function)
        finally:
            numba.config.CACHE_LOCATOR_CLASSES = users
        if cache:
            name = f"{function.__module__}.{function.__qualname__}"
            KERNELS[name] = dispatcher
            if shipped()[0]:
                _prefer(code_of(name), dispatcher)
        return dispatcher

    return compiled


class Locator:
    """Tells numba where to cache a kernel, which is where it would anyway, and which stamp is valid."""

    @staticmethod
    def from_function(function: Callable[..., Any], file: str) -> Any:
        for kind in (caching.UserProvidedCacheLocator, caching.InTreeCacheLocator, caching.UserWideCacheLocator):
            if locator := kind.from_function(function, file):
                locator.get_source_stamp = source_stamp
                return locator
        return None


def code_of(kernel: str) -> Any:
    """Return numba's file of the machine code of a kernel in `SHIPPED`, by the types of its arguments."""
    return caching.IndexDataCacheFile(str(SHIPPED), kernel, source_stamp())


def _prefer(code: Any, dispatcher: Any) -> None:
    """Let a dispatcher look in the shipped machine code of its kernel first."""
    own = dispatcher._cache.load_overload

    def load_overload(signature: Any, context: Any) -> Any:
        if (found := code.load(signature)) is None:
            return own(signature, context)
        context.refresh()
        return numba.core.compiler.CompileResult._rebuild(context, *found)

    dispatcher._cache.load_overload = load_overload


@cache
def source_stamp() -> str:
    """Return a hash of the modules that `_SOURCES` names, and of their names: 3 ms, once in a process."""
    stamp = hashlib.sha256()
    for path in sorted(path for pattern in _SOURCES for path in PACKAGE.glob(pattern)):
        stamp.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return stamp.hexdigest()


@cache
def runs_level() -> bool:
    """Whether this processor runs shipped machine code, and the user has not named another one (NUMBA_CPU_NAME)."""
    named = numba.config.CPU_NAME is not None
    return not named and (LEVEL == "generic" or all(map(binding.get_host_cpu_features().get, _FEATURES)))


@cache
def shipped() -> tuple[bool, str]:
    """Return whether shipped machine code fits, and why any kernel is compiled none the less, as part of a sentence."""
    try:
        version, stamp = (SHIPPED / MADE_FOR).read_text("ascii").split()
    except FileNotFoundError:
        return False, f"no machine code for {ABI} is installed"
    if version != numba.__version__:
        return False, f"the machine code that is installed needs numba {version}, not {numba.__version__}"
    if not runs_level():
        return False, f"the machine code that is installed needs a processor of level {LEVEL}, and NUMBA_CPU_NAME unset"
    if stamp != source_stamp():
        return False, "the machine code that is installed is of another source"
    return True, "the machine code that is installed lacks some kernels"
