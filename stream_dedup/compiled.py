"""numba's `njit` for the kernels, with machine code that the wheel and the image bring along.

In: a kernel. Out: its dispatcher, which looks for machine code in `machine_code/` of this package and then in numba's
own cache, where it also keeps what it compiles. `python -m stream_dedup.precompile` fills the folder, for one version
each of numba, Python and this code. With any other the kernels are compiled as if it were empty: half a minute or more.

What is shipped is compiled for x86-64-v3: every x86-64 server since 2015 runs it, as fast as code for the processor
itself; `generic` took 10 to 20 % more time. numba's cache names the processor in its keys, so it would not find that
code, and `KernelCache` asks under the other name. No setting of numba changes for a program's own kernels.

numba stamps its cache with the file of a kernel alone, though a kernel contains code and constants of other files:
after an update of a checkout it named modules that were gone. Here the stamp is the content of all those modules.
"""

import hashlib
import platform
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

PACKAGE = Path(__file__).parent
SHIPPED = PACKAGE / "machine_code"
PYTHON = "{}.{}".format(*sys.version_info)
LEVEL = "x86-64-v3" if platform.machine().lower() in {"x86_64", "amd64"} else "generic"
"""The processor of shipped machine code, by LLVM's name. All processors of an architecture run `generic`."""
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
        dispatcher = numba.njit(**options)(function)
        if cache:
            dispatcher._cache = KernelCache(function)
        return dispatcher

    return compiled


class _Result(CompileResultCacheImpl):
    """What is kept of a compilation: all but the annotated source, a fifth of it, which names the builder's folders."""

    def reduce(self, result: Any) -> Any:
        return super().reduce(result._replace(type_annotation=""))


class KernelCache(FunctionCache):
    """numba's cache of one kernel, with another stamp and another place to look first.

    What it uses of numba is not public; an entry of another version of numba is never read.
    """

    _impl_class = _Result

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        name, stamp = self._impl.filename_base, source_stamp()
        self._cache_file = IndexDataCacheFile(self._cache_path, name, stamp)
        self._shipped = IndexDataCacheFile(str(SHIPPED), name, stamp)

    def _load_overload(self, signature: Any, context: Any) -> Any:
        if runs_shipped():
            level = _Level(context.codegen().magic_tuple()[0])
            if (found := self._shipped.load(self._index_key(signature, level))) is not None:
                return self._impl.rebuild(context, found)
        return super()._load_overload(signature, context)


class _Level:
    """Stands for a code generator of `LEVEL`, of which the cache asks this only."""

    def __init__(self, triple: str) -> None:
        self._triple = triple

    def magic_tuple(self) -> tuple[str, str, str]:
        return self._triple, LEVEL, ""


@cache
def source_stamp() -> str:
    """Return a hash of the modules that `_SOURCES` names, and of their names: 3 ms, once in a process."""
    stamp = hashlib.sha256()
    for path in sorted(path for pattern in _SOURCES for path in PACKAGE.glob(pattern)):
        stamp.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return stamp.hexdigest()


@cache
def runs_shipped() -> bool:
    """Whether this processor runs shipped machine code, and the user has not named another one (NUMBA_CPU_NAME)."""
    if numba.config.CPU_NAME is not None:
        return False
    return LEVEL == "generic" or all(map(binding.get_host_cpu_features().get, _FEATURES))


def why_compiled() -> str:
    """Return why kernels are compiled although some may have been shipped, as a part of a sentence."""
    try:
        wanted, stamp = (SHIPPED / f"python{PYTHON}").read_text("ascii").split()
    except FileNotFoundError:
        return f"no machine code for Python {PYTHON} is installed"
    if not runs_shipped():
        return f"the machine code that is installed needs a processor of level {LEVEL}, and NUMBA_CPU_NAME unset"
    if wanted != numba.__version__:
        return f"the machine code that is installed needs numba {wanted}, not {numba.__version__}"
    return "the machine code that is installed lacks " + ("some kernels" if stamp == source_stamp() else "this source")
