"""`python -m stream_dedup.precompile`: compiles every kernel into the package, for a wheel or an image that ships it.

Out: a folder in `machine_code/` beside the modules, for the running version of Python; those for others stay. It takes
one or two minutes.
"""

import shutil
import tempfile

import numba

from stream_dedup.compiled import KERNELS, LEVEL, MADE_FOR, SHIPPED, code_of, source_stamp


def ship() -> None:
    """Compile all kernels into `SHIPPED`. Raises OSError if it cannot be written."""
    with tempfile.TemporaryDirectory(prefix="stream-dedup-ship-") as name:
        # numba reads them when the first kernel is defined, so that the modules of kernels come later.
        numba.config.CPU_NAME, numba.config.CPU_FEATURES, numba.config.CACHE_DIR = LEVEL, "", name
        from stream_dedup.precompile.kernels import compile_all

        compile_all()
    write()
    print(f"{len(KERNELS)} kernels compiled for {LEVEL} into {SHIPPED}")


def write() -> None:
    """Write what this process has compiled, but for the annotated sources, which name its folders."""
    shutil.rmtree(SHIPPED, ignore_errors=True)
    SHIPPED.mkdir(parents=True)
    for name, kernel in KERNELS.items():
        code = code_of(name)
        for types, result in kernel.overloads.items():
            code.save(types, result._replace(type_annotation="")._reduce())
    (SHIPPED / MADE_FOR).write_text(f"{numba.__version__}\n{source_stamp()}\n", "ascii")


if __name__ == "__main__":
    ship()
