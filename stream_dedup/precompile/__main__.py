"""`python -m stream_dedup.precompile`: compiles every kernel into the package, for a wheel or an image that ships it.

Out: `machine_code/` beside the modules, for the running version of Python; files for other versions stay. It takes one
or two minutes.
"""

import shutil
import tempfile
from pathlib import Path

import numba

from stream_dedup.compiled import LEVEL, PYTHON, SHIPPED, source_stamp


def ship() -> None:
    """Compile all kernels into `SHIPPED`. Raises OSError if it cannot be written."""
    SHIPPED.mkdir(exist_ok=True)
    for old in SHIPPED.glob(f"*.py{PYTHON.replace('.', '')}.*"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="stream-dedup-ship-") as name:
        # numba reads them when the first kernel is defined, so that the modules of kernels come later.
        numba.config.CPU_NAME, numba.config.CPU_FEATURES, numba.config.CACHE_DIR = LEVEL, "", name
        from stream_dedup.precompile.kernels import compile_all

        count = compile_all()
        for path in Path(name).rglob("*.nb[ci]"):
            shutil.copyfile(path, SHIPPED / path.name)
    (SHIPPED / f"python{PYTHON}").write_text(f"{numba.__version__} {source_stamp()}\n", "ascii")
    print(f"{count} kernels compiled for {LEVEL} into {SHIPPED}")


if __name__ == "__main__":
    ship()
