"""Health check of a worker: ask its /healthz, and exit with 0 if it is healthy, or 1 and a line with the reason.

`python -m stream_dedup.observe.probe` is the image's health check, so the image needs no curl. It imports only the
standard library and takes a tenth of a second. The `stream-dedup` command would load the compiled kernels, a second of
processor time at each check.
"""

import http.client
import json
import os
import sys
from urllib.parse import urlsplit

DEFAULT_URL = "http://127.0.0.1:9464/healthz"
# Shorter than the caller's timeout: 5 s for the image's health check, 1 s by default for a Kubernetes probe.
SECONDS = 3.0


def probe(url: str, seconds: float = SECONDS) -> tuple[bool, str]:
    """Return whether the worker is healthy, and its status or the error as a line of text.

    Waits `seconds` for a connection, and as long again for the response.

    >>> probe("http://127.0.0.1:1/healthz")[0]
    False
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        return False, f"{url} is no http://HOST:PORT/PATH"
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
    try:
        connection.request("GET", parts.path or "/healthz")
        response = connection.getresponse()
        health = json.loads(response.read(4096))
        reason = f" ({health['reason']})" if "reason" in health else ""
        return response.status == 200, f"{health['status']} since {health['since']}{reason}"
    except ConnectionRefusedError:
        return False, f"no worker listens at {url}: is it running, and is this its observe.host and observe.port?"
    except (OSError, http.client.HTTPException) as error:
        return False, f"{url}: {error or type(error).__name__}"
    except (ValueError, KeyError, TypeError):
        return False, f"{url}: this is not the worker's /healthz"
    finally:
        connection.close()


def default_url() -> str:
    """Return the /healthz URL of the worker in this container, from the environment's settings."""
    host = os.environ.get("STREAM_DEDUP_OBSERVE__HOST", "127.0.0.1")
    port = os.environ.get("STREAM_DEDUP_OBSERVE__PORT", "9464")
    return url_of(host, port)


def url_of(host: str, port: int | str) -> str:
    """Return the /healthz URL for a worker with this host and port; 127.0.0.1 if it listens on all addresses.

    >>> url_of("0.0.0.0", 9464), url_of("::1", 80)
    ('http://127.0.0.1:9464/healthz', 'http://[::1]:80/healthz')
    """
    if host in ("0.0.0.0", "::"):  # noqa: S104 - nothing is bound here
        host = "127.0.0.1"
    return f"http://[{host}]:{port}/healthz" if ":" in host else f"http://{host}:{port}/healthz"


def main(arguments: list[str]) -> int:
    """Print the status; return the exit code."""
    healthy, text = probe(arguments[0] if arguments else default_url())
    print(text, file=sys.stdout if healthy else sys.stderr)
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
