"""Fetch schemas from a schema registry over HTTP, by Confluent's REST API.

Confluent, Apicurio (under /apis/ccompat/v7), Karapace and Redpanda serve this API. If the registry says that it has no
such schema, the item is bad. Any other failure says nothing about the record, so the record waits: `RegistryAway`.
"""

import json
import ssl
import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from stream_dedup.errors import BadItem, ConfigError, RegistryAway
from stream_dedup.extras import require
from stream_dedup.settings import RegistrySettings

# The worker's loop waits for the answer, and a member that is silent for [worker] session_timeout (10 s) is replaced.
_SECONDS = 5.0
_MOST_BYTES = 8 * 2**20  # of an answer; the largest schemas in use have some hundred kilobytes
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


class Registered(NamedTuple):
    """A schema as it was registered."""

    kind: str  # AVRO, JSON or PROTOBUF
    text: str
    references: Sequence[tuple[str, int]]  # each import, and the id of its schema


class RegistryClient:
    """Asks the registry of the [registry] settings. Several threads may use it; it keeps no connection.

    Raises ConfigError for a CA file that cannot be used.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        # httpx takes .1 s: who has no registry does not pay, nor does a record.
        require("httpx", "[registry] url")
        self._settings, self._url = settings, settings.url.rstrip("/")
        try:
            self._context()
        except OSError as error:
            raise ConfigError(
                f"[registry] ca_file: cannot use {settings.ca_file} as a PEM file of CAs: {error}"
            ) from None

    def schema(self, number: int, *, serialized: bool = False) -> Registered:
        """Fetch the schema with this id. A Protobuf schema comes as text, or `serialized` as a descriptor in Base64.

        Takes a request, and one for each reference. Raises BadItem if the registry has no such schema; RegistryAway.
        """
        path = f"/schemas/ids/{number}" + ("?format=serialized" if serialized else "")
        answer = self._get(path, "no such schema")
        try:
            references = [
                (reference["name"], self._id_of(reference["subject"], reference["version"]))
                for reference in answer.get("references") or ()
            ]
            return Registered(answer.get("schemaType") or "AVRO", str(answer["schema"]), references)
        except (AttributeError, KeyError, TypeError):
            raise self._unusable(f"answers {path} in another form than Confluent's API") from None

    def _id_of(self, subject: str, version: int) -> int:
        path = f"/subjects/{quote(subject, safe='')}/versions/{int(version)}"
        return int(self._get(path, f"no version {version} of {subject}, to which a schema refers")["id"])

    def _context(self) -> ssl.SSLContext:
        """Load the CA file again, so that a replaced one takes effect. This takes 20 ms, which plain http saves."""
        if self._url.startswith("https"):
            return ssl.create_default_context(cafile=self._settings.ca_file)
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts none

    def _get(self, path: str, lack: str) -> Any:
        import httpx

        settings, body, deadline = self._settings, bytearray(), time.monotonic() + _SECONDS
        headers, login, password = {"Accept": _ACCEPT}, None, settings.secret("password")
        if password is not None and settings.user:
            login = httpx.BasicAuth(settings.user, password)
        elif password is not None:
            headers["Authorization"] = f"Bearer {password}"
        try:
            # Redirects are not followed: one could take the login to another host.
            with (
                httpx.Client(verify=self._context(), trust_env=False, timeout=_SECONDS, auth=login) as client,
                client.stream("GET", self._url + path, headers=headers) as answer,
            ):
                for chunk in answer.iter_bytes():
                    body += chunk
                    if len(body) > _MOST_BYTES or time.monotonic() > deadline:
                        raise self._unusable(f"takes longer than {_SECONDS:.0f} s for {path}, or sends too much")
            if answer.status_code != 200:
                self._refused(answer.status_code, path, bytes(body), lack)
            return json.loads(body)
        except httpx.LocalProtocolError:  # its text may show a header
            raise self._unusable(
                "cannot be asked: the password or token has a character that no header may have"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._unusable(f"cannot be reached: {error or type(error).__name__}") from None
        except ValueError:
            raise self._unusable(f"does not answer {path} with JSON") from None

    def _refused(self, status: int, path: str, body: bytes, lack: str) -> None:
        """Raise BadItem if the registry itself says that it lacks something, otherwise RegistryAway."""
        if status in (401, 403):
            raise self._unusable(f"refuses the login ({status}): check [registry] user and password")
        if status == 404:
            try:
                # 40401: no subject, 40402: no version, 40403: no schema. A wrong address has another answer.
                is_known = json.loads(body)["error_code"] in (40401, 40402, 40403)
            except (ValueError, KeyError, TypeError):
                is_known = False
            if is_known:
                raise BadItem("schema", f"the registry has {lack}")
            raise self._unusable(
                f"has no {path} (404): check [registry] url; Apicurio's ends in /apis/ccompat/v7, others have no path"
            )
        raise self._unusable(f"answers {path} with {status}")

    def _unusable(self, problem: str) -> RegistryAway:
        return RegistryAway(f"the schema registry {self._url} {problem}; records wait for it")
