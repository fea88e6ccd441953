"""`stream-dedup warm`: compile the kernels ahead of time, as when an image is built."""

import time

import typer

from stream_dedup.phrases import counted


def warm_command() -> None:
    """Compile all kernels ahead of the first start.

    The first run takes a minute or more, later runs seconds. The kernels are stored beside the code, or in
    NUMBA_CACHE_DIR. They fit this machine's processor, or the one that NUMBA_CPU_NAME names.
    """
    from stream_dedup.precompile.kernels import compile_all

    began = time.monotonic()
    compiled = compile_all()
    typer.echo(
        f"{counted(compiled, 'kernel')} compiled in {time.monotonic() - began:.0f} s"
        if compiled
        else "nothing to compile"
    )
