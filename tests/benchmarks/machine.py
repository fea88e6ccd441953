"""What the figures were measured on: processor, cores, memory, versions; nothing that names machine or owner."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "kafka-python", "numpy", "numba", "datasketch", "gaoya", "rensa", "simhash", "faiss-cpu", "confluent-kafka",
)  # fmt: skip

ABSENT = "not installed"


def describe() -> dict[str, str]:
    """Name -> value, in the order in which they are shown."""
    about = {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else str(os.cpu_count()),
        "memory": f"{_memory() / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for name in PACKAGES:
        try:
            about[name] = version(name)
        except PackageNotFoundError:
            about[name] = ABSENT
    return about


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text("utf-8").splitlines() if cpuinfo.is_file() else ():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
