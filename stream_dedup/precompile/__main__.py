"""`python -m stream_dedup.precompile`: compiles every kernel into the package, for a wheel or an image that ships it.

Out: a file in `machine_code/` beside the modules, for the running version of Python; files for others stay. It takes
one or two minutes.
"""

import pickle
import tempfile
import zlib
from pathlib import Path

import numba
from numba.core.serialize import dumps

from stream_dedup.compiled import KERNELS, LEVEL, SHIPPED, source_stamp


def ship() -> None:
    """Compile all kernels into `SHIPPED`. Raises OSError if it cannot be written."""
    with tempfile.TemporaryDirectory(prefix="stream-dedup-ship-") as name:
        # numba reads them when the first kernel is defined, so that the modules of kernels come later.
        numba.config.CPU_NAME, numba.config.CPU_FEATURES, numba.config.CACHE_DIR = LEVEL, "", name
        from stream_dedup.precompile.kernels import compile_all

        compile_all()
    SHIPPED.parent.mkdir(exist_ok=True)
    write(SHIPPED)
    print(f"{len(KERNELS)} kernels compiled for {LEVEL} into {SHIPPED}")


def write(path: Path) -> None:
    """Write what this process has compiled, but for the annotated sources, which name its folders."""
    kernels = {}
    for name, kernel in KERNELS.items():
        made = {types: result._replace(type_annotation="")._reduce() for types, result in kernel.overloads.items()}
        kernels[name] = zlib.compress(dumps(made))
    path.write_bytes(pickle.dumps((numba.__version__, source_stamp(), kernels)))


if __name__ == "__main__":
    ship()
