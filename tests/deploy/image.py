"""The image without a container engine: the Dockerfile is built by buildah, and what it made is run by hand.

In: deploy/Dockerfile and a clean Debian of the release that its FROM names, made by mmdebstrap from Debian's own
packages, as the official image is. buildah executes the file itself, each step in a chroot; so nothing of this
machine's Python takes part. Out: `Image`, with the image's own configuration (environment, user, entry point), and
`Container`, its entry point as a container runtime would start it:

- namespaces of its own for mounts and processes; the root file system is mounted read-only;
- /tmp is a tmpfs without executables, /dev holds null, zero, random and urandom, and nothing else is writable;
- the image's numeric user without groups, without any capability, without new privileges.

The network is the machine's, so that the embedded Kafka can be reached. Needs root, and Debian's packages mmdebstrap
and buildah.
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
from typing import Any, Self

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
TAG = "localhost/stream-dedup:test"
NEEDED = ("mmdebstrap", "buildah", "unshare", "setpriv")
_RELEASES = {"13": "trixie"}
# Installing takes what the network takes; compiling the kernels about a minute.
_BUILD_SECONDS = 1500


def missing() -> str:
    """What this machine lacks for it; empty: nothing."""
    if os.geteuid() != 0:
        return "building the image needs root"
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    return f"building the image needs {', '.join(lacking)}: apt-get install mmdebstrap buildah" if lacking else ""


def base_image() -> tuple[str, str]:
    """The Dockerfile's base and its Debian release: ("debian:13.7-slim", "trixie")."""
    [base] = set(re.findall(r"^FROM (debian:\S+)", DOCKERFILE.read_text("utf-8"), re.M))
    return base, _RELEASES[re.split(r"[:.]", base)[1]]


@dataclass(frozen=True)
class Image:
    """A built image: `root` is its file system, mounted; `steps` how many steps the builder executed."""

    root: Path
    config: Mapping[str, Any]
    steps: int


class Builder:
    """Makes the image in a directory of its own, between `with` and its end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._buildah("umount", "--all")
        self._buildah("rm", "--all")

    def build(self) -> Image:
        """Every step of the Dockerfile, none from a cache. Raises AssertionError with the builder's last lines."""
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
        """This machine's authorities for pip, in a file of their own: pip's may not know those of a proxy."""
        settings = self._directory / "pip.conf"
        settings.write_text("[global]\ncert = /etc/machine.crt\n")
        authorities = ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
        given = {Path(authorities).resolve(): "/etc/machine.crt", settings: "/etc/pip.conf"}
        return [word for own, there in given.items() for word in ("--volume", f"{own}:{there}:ro")]

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
    """The image's entry point, from its start to `stop`; `run` is a command beside it, as `docker run` has it."""

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
        """Bytes of the worker's resident memory."""
        status = Path(f"/proc/{self._inner()}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024

    def status(self) -> dict[str, str]:
        """What the kernel says of the worker's process: user, capabilities, privileges."""
        return dict(re.findall(r"^(\w+):\s+(.*)$", Path(f"/proc/{self._inner()}/status").read_text(), re.M))

    def kernels(self) -> list[str]:
        """Names of the compiled kernels that the process has; more than the image has: something was compiled."""
        inside = Path(f"/proc/{self._inner()}/root/tmp/stream-dedup-kernels")
        return sorted(str(one.relative_to(inside)) for one in inside.rglob("*.nb?"))

    def stop(self) -> float:
        """SIGTERM to the worker; seconds until it has ended. What does not end in 30 s is killed."""
        began = time.monotonic()
        os.kill(self._inner(), signal.SIGTERM)
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
        return time.monotonic() - began

    def kill(self) -> None:
        """Whatever is left; the namespace's other processes go with its first."""
        if self._process.poll() is None:
            os.kill(self._inner(), signal.SIGKILL)
            self._process.wait(10)

    def _inner(self) -> int:
        """The process that is the first of its namespace, as `docker stop` would find it: a child of unshare's."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return int(children[0])


def command_line(image: Image, environment: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """What starts a command in the image, with the image's own environment and user."""
    user, group = image.config["User"].split(":")
    variables = [*image.config["Env"], *(f"{name}={value}" for name, value in environment.items())]
    drop = ["--reuid", user, "--regid", group, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
    # A signal to a first process counts only where it has a handler, as in a container.
    return [
        *("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _MOUNTS, "sh", str(image.root)),
        *("setpriv", *drop, "--no-new-privs", "env", "-i", "-C", image.config["WorkingDir"], *variables),
        *command,
    ]


def run(image: Image, environment: Mapping[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    """A command in the image, to its end."""
    return subprocess.run(
        command_line(image, environment, command), capture_output=True, text=True, timeout=120, check=False
    )
