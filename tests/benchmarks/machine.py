"""Describe the machine and the packages of a benchmark run, without host or owner names."""

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "kafka-python", "numpy", "numba", "datasketch", "gaoya", "rensa", "simhash", "faiss-cpu", "confluent-kafka",
)  # fmt: skip


def describe() -> dict[str, str]:
    """Processor, cores, memory and system, in the order of the page."""
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else str(os.cpu_count()),
        "memory": f"{_memory() / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
    }


def packages() -> dict[str, str]:
    """Versions of Python and of the installed packages that figures depend on."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text("utf-8").splitlines() if cpuinfo.is_file() else ():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
