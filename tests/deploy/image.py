"""Build the image with buildah and run it without a container engine.

`Builder` makes a clean Debian of the release that deploy/Dockerfile names, with mmdebstrap, like the
official image. buildah executes each step of the Dockerfile in a chroot, so this machine's Python is not involved.
`Container` starts the entry point of the built `Image` as a container runtime would:

- separate namespaces for mounts and processes; the root file system is mounted read-only;
- /tmp is a tmpfs without executables, /dev has null, zero, random and urandom, and nothing else is writable;
- the image's numeric user, without groups, capabilities or new privileges.

The container shares this machine's network, so that it reaches the embedded Kafka. Root and Debian's packages
mmdebstrap and buildah are required.
"""

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
TAG = "localhost/stream-dedup:test"
REQUIRED_PROGRAMS = ("mmdebstrap", "buildah", "unshare", "setpriv")
_RELEASES = {"13": "trixie"}
# The time to install depends on the network.
_BUILD_SECONDS = 1500


def missing_requirements() -> str:
    """Return a message that names what this machine lacks for the build; empty if it lacks nothing."""
    if os.geteuid() != 0:
        return "building the image needs root"
    absent = [name for name in REQUIRED_PROGRAMS if shutil.which(name) is None]
    return f"building the image needs {', '.join(absent)}: apt-get install mmdebstrap buildah" if absent else ""


def base_image() -> tuple[str, str]:
    """Return the Dockerfile's base image and its Debian release: ("debian:13.7-slim", "trixie")."""
    [base] = set(re.findall(r"^FROM (debian:\S+)", DOCKERFILE.read_text("utf-8"), re.M))
    return base, _RELEASES[re.split(r"[:.]", base)[1]]


@dataclass(frozen=True)
class Image:
    """A built image. `root`: the mount point of its file system; `steps`: the number of steps executed."""

    root: Path
    config: Mapping[str, Any]
    steps: int


class Builder:
    """Builds the image in `directory`; `close` unmounts it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def close(self) -> None:
        self._buildah("umount", "--all")
        self._buildah("rm", "--all")

    def build(self) -> Image:
        """Execute every step of the Dockerfile without a cache. Raises AssertionError with the end of the log."""
        base, release = base_image()
        self._clean_debian(base, release)
        log = self._directory / "build.log"
        with log.open("wb") as out:
            code = subprocess.run(
                [*self._command, "bud", "--pull-never", "--no-cache", "--format", "docker", "--file", str(DOCKERFILE),
                 "--tag", TAG, *self._certificates(), str(ROOT)],
                stdout=out, stderr=subprocess.STDOUT, env=self._environment, timeout=_BUILD_SECONDS, check=False,
            ).returncode  # fmt: skip
        text = log.read_text("utf-8", errors="replace")
        assert code == 0, "\n".join(text.splitlines()[-30:])
        config = json.loads(self._buildah("inspect", "--type", "image", TAG))["Docker"]["config"]
        container = self._buildah("from", "--pull-never", TAG).strip()
        return Image(Path(self._buildah("mount", container).strip()), config, len(re.findall(r"STEP \d+/\d+", text)))

    def _clean_debian(self, base: str, release: str) -> None:
        archive = self._directory / "base.tar"
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", release, str(archive)], check=True, timeout=600)
        container = self._buildah("from", "scratch").strip()
        self._buildah("add", container, str(archive), "/")
        self._buildah("commit", "--rm", container, f"docker.io/library/{base}")

    def _certificates(self) -> list[str]:
        """Mount this machine's certificate authorities for pip, whose own may not include that of a proxy."""
        settings = self._directory / "pip.conf"
        settings.write_text("[global]\ncert = /etc/machine.crt\n")
        authorities = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
        mounts = {Path(authorities).resolve(): "/etc/machine.crt", settings: "/etc/pip.conf"}
        return [word for source, target in mounts.items() for word in ("--volume", f"{source}:{target}:ro")]

    @property
    def _command(self) -> list[str]:
        return ["buildah", "--root", f"{self._directory}/store", "--runroot", f"{self._directory}/run"]

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}

    def _buildah(self, *arguments: str) -> str:
        return subprocess.run(
            [*self._command, *arguments], capture_output=True, text=True, env=self._environment, check=True, timeout=300
        ).stdout


_MOUNTS = """
set -e
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs -o mode=1777,size=64m,nosuid,nodev,noexec tmpfs "$root/tmp"
mount -t proc -o ro proc "$root/proc"
mount -t tmpfs -o mode=755,size=64k tmpfs "$root/dev"
for one in null zero random urandom; do touch "$root/dev/$one"; mount --bind "/dev/$one" "$root/dev/$one"; done
mount -o remount,ro "$root/dev"
exec chroot "$root" "$@"
"""


class Container:
    """The image's entry point in a process, from the constructor to `stop` or `kill`. `run` runs a separate command."""

    def __init__(self, image: Image, environment: Mapping[str, str], log: Path, *arguments: str) -> None:
        command = [*image.config["Entrypoint"], *(arguments or image.config["Cmd"])]
        self.log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command_line(image, environment, command), stdout=out, stderr=subprocess.STDOUT
            )

    def ended(self) -> int | None:
        return self._process.poll()

    def text(self) -> str:
        return self.log.read_text("utf-8", errors="replace")

    def memory(self) -> int:
        """Return the worker's resident memory in bytes."""
        return int(self.status()["VmRSS"].split()[0]) * 1024

    def status(self) -> dict[str, str]:
        """Return the fields of /proc/PID/status of the worker's process: user, capabilities, privileges."""
        return dict(re.findall(r"^(\w+):\s+(.*)$", Path(f"/proc/{self._worker_pid()}/status").read_text(), re.M))

    def stop(self) -> float:
        """Send SIGTERM to the worker, and kill it after 30 s; return the seconds until it ended."""
        start = time.monotonic()
        os.kill(self._worker_pid(), signal.SIGTERM)
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
        return time.monotonic() - start

    def kill(self) -> None:
        """Kill the first process of the namespace, and with it all others, if it still runs."""
        if self._process.poll() is None:
            os.kill(self._worker_pid(), signal.SIGKILL)
            self._process.wait(10)

    def _worker_pid(self) -> int:
        """Return the pid of the namespace's first process, which `docker stop` would signal: the child of unshare."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(children[0])


def command_line(image: Image, environment: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """Return the command line that starts `command` in the image, with the image's environment and user."""
    user, group = image.config["User"].split(":")
    variables = [*image.config["Env"], *(f"{name}={value}" for name, value in environment.items())]
    drop = ["--reuid", user, "--regid", group, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
    # As in a container, the kernel delivers a signal to the first process only if that has a handler.
    return [
        *("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _MOUNTS, "sh", str(image.root)),
        *("setpriv", *drop, "--no-new-privs", "env", "-i", "-C", image.config["WorkingDir"], *variables),
        *command,
    ]


def run(image: Image, environment: Mapping[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the image and wait for its end."""
    return subprocess.run(
        command_line(image, environment, command), capture_output=True, text=True, timeout=120, check=False
    )
