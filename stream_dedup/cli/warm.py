"""`stream-dedup warm`: the compiled kernels, made before they are needed."""

import time

import typer


def warm_command() -> None:
    """Compile all kernels, so that the first start need not.

    That takes a minute once, then seconds. Kept beside the code, or in NUMBA_CACHE_DIR. They fit this machine's
    processor unless NUMBA_CPU_NAME says which.
    """
    from stream_dedup.precompile.kernels import compile_all  # of use to this command alone

    began = time.monotonic()
    compiled = compile_all()
    typer.echo(f"{compiled} kernels compiled in {time.monotonic() - began:.0f} s" if compiled else "nothing to compile")
