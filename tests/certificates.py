"""Certificates for tests: CAs, servers and clients, made by trustme and kept in a directory of the test's own."""

from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


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
    """A CA; `pem` is the file with its certificate."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name, self._ca = directory, name, trustme.CA()
        self.pem = directory / f"{name}.crt"
        self._ca.cert_pem.write_to_path(self.pem)

    def server(self, name: str, *hosts: str) -> Identity:
        """Make a server's certificate for these addresses and host names."""
        return self._make(name, hosts)

    def client(self, name: str, password: str | None = None) -> Identity:
        return self._make(name, (f"{name}.example",), password)  # Java refuses one for no name

    def _make(self, name: str, hosts: tuple[str, ...], password: str | None = None) -> Identity:
        issued = self._ca.issue_cert(*hosts, common_name=name)
        made = Identity(*(self._directory / f"{self._name}-{name}.{kind}" for kind in ("crt", "key")))
        issued.cert_chain_pems[0].write_to_path(made.cert)
        # As PKCS #8, the only form that Kafka reads.
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
        locked = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        made.key.write_bytes(key.private_bytes(*form, locked))
        return made
