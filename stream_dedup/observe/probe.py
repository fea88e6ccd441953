"""Ask a worker for its /healthz or /livez, and exit with 0 if the answer is 200, or 1 and a line why not.

The probe speaks HTTPS if the worker does. It trusts the worker's own certificate file, whatever names the certificate
has, because it asks by the address on which the worker listens. Without that file (a worker on another machine, by URL)
it trusts the CAs of the operating system, or of the variable SSL_CERT_FILE. It sends the worker's token if the
environment has it; without the token /healthz does not tell the reason.

`python -m stream_dedup.observe.probe /livez` is the image's health check, so the image needs no curl. It imports hardly
more than the standard library, and takes a third of the processor time of the `stream-dedup` command.
"""

import http.client
import json
import os
import re
import ssl
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from stream_dedup.observe.logs import escape_controls

# Shorter than the caller's timeout: 5 s for the image's health check.
SECONDS = 3.0


def probe(
    url: str, seconds: float = SECONDS, *, certfile: "Path | str | None" = None, token: str | None = None
) -> tuple[bool, str]:
    """Return whether the worker is healthy, and its status or the error as a line of text.

    Waits `seconds` for a connection, and as long again for the response. `certfile`: the worker's own certificate.

    >>> probe("http://127.0.0.1:1/healthz")[0]
    False
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # a bracket without its pair, or a port that is no number up to 65,535
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        # Whatever stands before an @ may be a password; parameters, which are not sent, may be secrets.
        shown = re.sub(r"^(\w[\w+.-]*://)?.*@", r"\1", url).partition("?")[0].partition("#")[0]
        return False, f"{shown} is no http://HOST:PORT/PATH or https://HOST:PORT/PATH"
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    try:
        if parts.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=seconds, context=_context(certfile)
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=seconds)
        with closing(connection):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request("GET", parts.path or "/healthz", headers=headers)
            response = connection.getresponse()
            health = json.loads(response.read(4096))
        reason = f" ({health['reason']})" if "reason" in health else ""
        return response.status == 200, f"{health['status']} since {health['since']}{reason}"
    except ConnectionRefusedError:
        return False, (
            f"no worker listens at {shown}: is it running, and is this its observe.host, and the port after its "
            "observe.port?"
        )
    except ssl.SSLCertVerificationError as error:
        return False, (
            f"{shown}: the worker's certificate is not trusted ({error.verify_message}); name its CA in SSL_CERT_FILE, "
            "or give the worker's settings with --config"
        )
    except (OSError, http.client.HTTPException) as error:
        return False, f"{shown}: {error or type(error).__name__}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return False, f"{shown}: this is not the worker's /healthz"


def _context(certfile: "Path | str | None") -> ssl.SSLContext:
    if certfile is None:
        return ssl.create_default_context()
    context = ssl.create_default_context(cafile=str(certfile))
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the file has this very certificate, perhaps not its CA
    return context


def default_url(path: str = "/healthz") -> str:
    """Return the URL of this path of the worker in this container, from the environment's settings."""
    host = _setting("HOST") or "127.0.0.1"
    port = _setting("PORT") or "9464"
    port = str(int(port) + 1) if port.isdecimal() else port  # `ObserveSettings.health_port`
    return url_of(host, port, "https" if _setting("TLS_CERTFILE") else "http", path)


def _token() -> str | None:
    """Return the token of the worker in this container, from the environment's settings; None without one."""
    path = _setting("TOKEN_FILE")
    if path is None:
        return _setting("TOKEN")
    try:
        return Path(path).read_text("utf-8-sig").rstrip("\r\n")
    except (OSError, UnicodeDecodeError):  # the worker reports it; without a token the health can still be asked for
        return None


def _setting(name: str) -> str | None:
    return os.environ.get(f"STREAM_DEDUP_OBSERVE__{name}", "").rstrip("\r\n") or None  # as settings/__init__.py


def url_of(host: str, port: int | str, scheme: str = "http", path: str = "/healthz") -> str:
    """Return the URL for a worker with this host and health port; 127.0.0.1 if it listens on all addresses.

    >>> url_of("0.0.0.0", 9464), url_of("::1", 80)
    ('http://127.0.0.1:9464/healthz', 'http://[::1]:80/healthz')
    """
    if host in ("0.0.0.0", "::"):  # noqa: S104 - nothing is bound here # nosec B104
        host = "127.0.0.1"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{path}"


def main(arguments: list[str]) -> int:
    """Print the status; return the exit code. The argument is a URL, or a path of the worker in this container."""
    place = arguments[0] if arguments else "/healthz"
    url = default_url(place) if place.startswith("/") else place
    return report(url, _setting("TLS_CERTFILE"), _token())


def report(url: str, certfile: "Path | str | None", token: str | None) -> int:
    """Print the status of the worker at this URL; return the exit code."""
    healthy, text = probe(url, certfile=certfile, token=token)
    print(escape_controls(text), file=sys.stdout if healthy else sys.stderr)
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
