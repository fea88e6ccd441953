"""Certificates for tests: CAs, servers and clients, made by the command `openssl` in a directory of the test's own."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Identity:
    """A certificate and its private key, as PEM files; `both` has the key first."""

    cert: Path
    key: Path

    @property
    def both(self) -> Path:
        path = self.cert.with_suffix(".both.pem")
        path.write_bytes(self.key.read_bytes() + self.cert.read_bytes())
        return path


class Authority:
    """A CA. Certificates are valid for a day from now."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name
        self._own = self._make(name, ["-addext", "basicConstraints=critical,CA:TRUE"], None)

    @property
    def pem(self) -> Path:
        return self._own.cert

    def server(self, name: str, *subject_names: str) -> Identity:
        """Make a server's certificate; `subject_names`: such as IP:127.0.0.1 and DNS:localhost."""
        return self._make(name, ["-addext", f"subjectAltName={','.join(subject_names)}"], self._own)

    def client(self, name: str, password: str | None = None) -> Identity:
        return self._make(name, ["-addext", "extendedKeyUsage=clientAuth"], self._own, password)

    def _make(self, name: str, extensions: list[str], issuer: Identity | None, password: str | None = None) -> Identity:
        stem = f"{self._name}-{name}"
        made = Identity(self._directory / f"{stem}.crt", self._directory / f"{stem}.key")
        signing = ["-CA", str(issuer.cert), "-CAkey", str(issuer.key)] if issuer else []
        encryption = ["-passout", f"pass:{password}"] if password else ["-noenc"]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "1",
             "-subj", f"/CN={name}", "-keyout", str(made.key), "-out", str(made.cert),
             *encryption, *extensions, *signing],
            check=True, capture_output=True,
        )  # fmt: skip
        return made
