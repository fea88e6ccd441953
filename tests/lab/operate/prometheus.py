"""A real Prometheus with the project's rules, for the duration of a `with` block.

Debian's package is used if it is installed; otherwise it is fetched and unpacked into a cache directory, which needs
neither root nor a service. If neither works, a test that needs it fails under CI=true and is skipped elsewhere.

An alert waits for minutes, and a baseline covers a day. For a run of minutes every duration in the rules is replaced
by a shorter one (`SHORT`, `SHORT_RANGE`); nothing else about a rule changes, least of all its threshold.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

from stream_dedup.tools.demo.embedded import end, free_ports
from tests.broker import launch
from tests.debian import apt

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "stream-dedup.json"
JOB = "stream-dedup"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stream-dedup" / "prometheus"
_START_SECONDS = 60.0

# Durations in the rules and in a run that scrapes every second. A `for` needs some evaluations.
SHORT = {"15s": "1s", "1m": "2s", "2m": "3s", "3m": "4s", "5m": "6s", "10m": "10s"}
# The same for ranges and offsets, which need some samples. The ten minutes must be longer than one fetch of an
# overloaded member, which knows the end of the input from its last fetch. The day must be longer than a fault. In the
# two minutes a member must try more than six times to reach a registry, at five seconds each.
SHORT_RANGE = {"1h": "60s", "2m": "60s", "5m": "6s", "10m": "30s", "15m": "30s", "30m": "12s", "1d": "90s"}


def shortened(rules: str) -> str:
    """Replace the durations in rules: interval, for, [range], offset.

    >>> shortened("for: 5m")
    'for: 6s'
    >>> shortened("avg_over_time(job:x:avg1d[1d] offset 30m)")
    'avg_over_time(job:x:avg1d[90s] offset 12s)'
    """
    pattern = r"(?P<before>\[|\boffset |\bfor: |\binterval: )(?P<duration>\d+[smhd])\b"

    def short(found: re.Match[str]) -> str:
        waits = found["before"] in ("for: ", "interval: ")
        return found["before"] + (SHORT if waits else SHORT_RANGE)[found["duration"]]

    return re.sub(pattern, short, rules)


def as_values(query: str) -> str:
    """Let comparisons in a query give 0 or 1 instead of nothing, so that it has data if its operands have.

    >>> as_values('known unless on (job) active > 0')
    'known and on (job) active > bool 0'
    >>> as_values('up{job!="x"} == 0 and deriv(lag[10m]) > 0')
    'up{job!="x"} == bool 0 and deriv(lag[10m]) > bool 0'
    """
    parts = re.split(r"(\{[^}]*\})", query.replace(" unless ", " and "))
    return "".join(
        part if part.startswith("{") else re.sub(r"(==|!=|>=|<=|>|<)(?!=)\s*", r"\1 bool ", part) for part in parts
    )


def panel_queries() -> dict[str, str]:
    """The PromQL of each panel query, by title and letter, with Grafana's variables filled in for a short run."""
    filled = {"$__rate_interval": "6s", "$job": JOB, "[10m]": "[20s]", "[5m]": "[60s]"}
    queries = {}
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"]
            for name, value in filled.items():
                query = query.replace(name, value)
            queries[f"{panel['title']} {target['refId']}"] = query
    return queries


def binaries() -> Path:
    """The directory of prometheus and promtool. Raises OSError or CalledProcessError if unavailable."""
    found = shutil.which("prometheus")
    if found and shutil.which("promtool"):
        return Path(found).parent
    unpacked = _CACHE / "usr" / "bin"
    if not (unpacked / "prometheus").exists():
        _unpack(_CACHE)
    return unpacked


def _unpack(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        folder = Path(directory)
        try:
            apt(["download", "prometheus"], folder=folder)
        except subprocess.CalledProcessError:  # there are no package lists yet, or they name an older version
            apt(["update"], ["download", "prometheus"], folder=folder)
        [package] = folder.glob("*.deb")
        subprocess.run(["dpkg", "-x", package, folder / "unpacked"], check=True, capture_output=True, timeout=240)
        with suppress(OSError):  # another run was quicker
            (folder / "unpacked").rename(target)


def promtool(*arguments: str) -> str:
    """Run promtool and return its output. Fails with the output if promtool fails."""
    command = [binaries() / "promtool", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Prometheus:
    """Scrapes `targets` (HOST:PORT each) every second, with the shortened rules."""

    def __init__(self, targets: Sequence[str]) -> None:
        self._targets = targets

    def __enter__(self) -> Self:
        self._temporary = tempfile.TemporaryDirectory(prefix="stream-dedup-prometheus-", ignore_cleanup_errors=True)
        directory = Path(self._temporary.name)
        [port] = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        (directory / "rules.yml").write_text(shortened(RULES.read_text("utf-8")), "utf-8")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": JOB, "static_configs": [{"targets": list(self._targets)}]}],
        }
        (directory / "prometheus.yml").write_text(json.dumps(config), "utf-8")  # YAML takes JSON
        command = [
            str(binaries() / "prometheus"),
            f"--config.file={directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            # Otherwise an instant query may return a value of up to five minutes ago.
            "--query.lookback-delta=5s",
        ]
        self._process = launch(command, directory / "prometheus.log")
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            log = (directory / "prometheus.log").read_text("utf-8", "replace")
            assert self._process.poll() is None and time.monotonic() < deadline, log  # noqa: PT018 - one story
            time.sleep(0.1)
        self.began = time.time()
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)
        self._temporary.cleanup()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as answer:  # noqa: S310 - our own
                return bool(answer.status == 200)
        except OSError:
            return False

    def ask(self, path: str, **parameters: str | float) -> Any:
        """The `data` of a response of the HTTP API."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:  # noqa: S310 - our own
            return json.load(answer)["data"]

    def rules(self) -> dict[str, dict[str, Any]]:
        """Name -> rule, recording and alerting."""
        return {rule["name"]: rule for group in self.ask("rules")["groups"] for rule in group["rules"]}

    def firing(self, pending: bool = False) -> set[str]:
        """Names of the alerts that fire now; with `pending` also of the pending ones."""
        alerts = self.ask("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if pending or alert["state"] == "firing"}

    def value(self, query: str) -> float | None:
        """The first value of an instant query."""
        result = self.ask("query", query=query)["result"]
        return float(result[0]["value"][1]) if result else None

    def has_data(self, query: str) -> bool:
        """Whether the query has given a number at any second since the start."""
        data = self.ask("query_range", query=query, start=self.began, end=time.time(), step=1)
        return any(value != "NaN" for series in data["result"] for _, value in series["values"])

    def queries(self) -> dict[str, str]:
        """All queries of panels and rules."""
        rules = {f"rule {name}": as_values(rule["query"]) for name, rule in self.rules().items()}
        return panel_queries() | rules

    def without_data(self, queries: Mapping[str, str]) -> dict[str, str]:
        return {name: query for name, query in queries.items() if not self.has_data(query)}


@pytest.fixture(scope="session")
def prometheus_there() -> None:
    """Skip the test if Prometheus cannot be started here."""
    try:
        binaries()
    except (OSError, subprocess.SubprocessError) as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no prometheus, and its package cannot be fetched: {error}")
