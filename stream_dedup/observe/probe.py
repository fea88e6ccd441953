"""Is the worker at this address well? A URL of /healthz -> exit code 0, or 1 and one line that says why not.

`python -m stream_dedup.observe.probe` is the image's health check. It imports the standard library alone and ends in
a tenth of a second; the whole command line would load the compiled kernels for it, a second of processor time each
time it is asked. A container without curl needs no curl.
"""

import http.client
import json
import os
import sys
from urllib.parse import urlsplit

DEFAULT_URL = "http://127.0.0.1:9464/healthz"
# Shorter than the patience of whoever asks: the image's health check has 5 s, a Kubernetes probe 1 s unless told.
SECONDS = 3.0


def probe(url: str, seconds: float = SECONDS) -> tuple[bool, str]:
    """Whether it is well, and what it says (`ok`, `standby`, `degraded`, `starting`, `stalled`, or what went wrong).

    Waits `seconds` for a connection, and again for the answer.

    >>> probe("http://127.0.0.1:1/healthz")[0]
    False
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        return False, f"{url} is no http://HOST:PORT/PATH"
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
    try:
        connection.request("GET", parts.path or "/healthz")
        answer = connection.getresponse()
        said = json.loads(answer.read(4096))
        reason = f" ({said['reason']})" if "reason" in said else ""
        return answer.status == 200, f"{said['status']} since {said['since']}{reason}"
    except ConnectionRefusedError:
        return False, f"no worker listens at {url}: is it running, and is this its observe.host and observe.port?"
    except (OSError, http.client.HTTPException) as error:
        return False, f"{url}: {error or type(error).__name__}"
    except (ValueError, KeyError, TypeError):
        return False, f"{url}: this is not the worker's /healthz"
    finally:
        connection.close()


def default_url() -> str:
    """Where the worker of this container listens, as far as the environment tells; 0.0.0.0 is asked at 127.0.0.1."""
    host = os.environ.get("STREAM_DEDUP_OBSERVE__HOST", "127.0.0.1")
    port = os.environ.get("STREAM_DEDUP_OBSERVE__PORT", "9464")
    return url_of(host, port)


def url_of(host: str, port: int | str) -> str:
    """Where a worker that listens on this host and port is asked; one that listens everywhere is asked at 127.0.0.1.

    >>> url_of("0.0.0.0", 9464), url_of("::1", 80)
    ('http://127.0.0.1:9464/healthz', 'http://[::1]:80/healthz')
    """
    if host in ("0.0.0.0", "::"):  # noqa: S104 - nothing is bound here
        host = "127.0.0.1"
    return f"http://[{host}]:{port}/healthz" if ":" in host else f"http://{host}:{port}/healthz"


def main(arguments: list[str]) -> int:
    """0 well, 1 not."""
    well, said = probe(arguments[0] if arguments else default_url())
    print(said, file=sys.stdout if well else sys.stderr)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
