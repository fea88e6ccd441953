"""The first broker is trusted, and the address that it advertises is not in its certificate: reported, not silent."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_dedup.settings import load_settings
from stream_dedup.tools.demo.embedded import free_ports
from tests.broker import EmbeddedKafka
from tests.certificates import Authority
from tests.harness.member import Command
from tests.harness.topics import make_settings, ready
from tests.harness.wait import wait_until
from tests.kafka.test_broker_watch import status_after

pytestmark = pytest.mark.kafka


class Renamed(EmbeddedKafka):
    """A broker with a TLS listener whose certificate is for 127.0.0.1, and which advertises itself as localhost."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.authority = Authority(directory, "trusted")
        self._identity = self.authority.server("here", "127.0.0.1")
        [self.port] = free_ports(1)

    def _format(self) -> None:
        text = self._properties.read_text("utf-8")
        text = re.sub(r"^listeners=.*$", rf"\g<0>,TLS://127.0.0.1:{self.port}", text, flags=re.M)
        text = re.sub(r"^advertised.listeners=.*$", rf"\g<0>,TLS://localhost:{self.port}", text, flags=re.M)
        text = text.replace("protocol.map=", "protocol.map=TLS:SSL,")
        prefix = "listener.name.tls.ssl.keystore"
        text += f"{prefix}.type=PEM\n{prefix}.location={self._identity.both}\n"
        self._properties.write_text(text, "utf-8")
        super()._format()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_wrong_certificate_behind_the_first_broker_is_named(
    kafka_prepared: None, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    with Renamed(tmp_path) as kafka:
        plain = ready(make_settings(kafka.bootstrap, topic_name))
        tls = {
            "bootstrap_servers": f"127.0.0.1:{kafka.port}",
            "security_protocol": "SSL",
            "ssl_cafile": str(kafka.authority.pem),
        }
        settings = plain.model_copy(update={"kafka": load_settings(kafka=plain.kafka.model_dump() | tls).kafka})
        with Command("distrustful", settings, tmp_path) as member:
            member.start()
            problem = f"localhost:{kafka.port}: the broker's certificate is for another host"

            def lines() -> list[str]:
                return [line for line in member.log().splitlines() if problem in line and '"level": "error"' in line]

            status_after(member, "degraded", 240)
            wait_until(lines, "the error is in the log")
            [line] = lines()
            assert "bootstrap_servers and the brokers' advertised.listeners" in line
