"""`stream-dedup warm`: compile the kernels ahead of time, as when an image is built."""

import time

import typer


def warm_command() -> None:
    """Compile all kernels ahead of the first start.

    The first run takes about a minute, later runs seconds. The kernels are stored beside the code, or in
    NUMBA_CACHE_DIR. They fit this machine's processor, or the one that NUMBA_CPU_NAME names.
    """
    from stream_dedup.precompile.kernels import compile_all  # of use to this command alone

    began = time.monotonic()
    compiled = compile_all()
    typer.echo(f"{compiled} kernels compiled in {time.monotonic() - began:.0f} s" if compiled else "nothing to compile")
