"""Report a refused login or certificate, which the client would retry for ever; silence warnings on large fetches.

Without this a wrong password looks like a broker that is away (kafka-python 3.0):

- A broker that refuses a login answers and hangs up. When the answer and the end of the stream come together, the
  client throws the answer away: nine times in ten.
- While the client looks for its first broker it only logs a refusal, and tries again until its time is over. A failed
  TLS handshake too, and each leaves an open socket behind.

The client also warns of a hang when it reads from a socket for longer than 0.1 s. A fetch of 16 MB is read in one go,
in 0.1 to 0.25 s while all other threads are busy, so the log would fill with false warnings; here the limit is 1 s.
"""

from typing import Any

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport

from stream_dedup.kafka.tls import DISTRUSTED, CertificateProblem, certificate_problem

_SLOW_TASK_SECONDS = 1.0
_FINAL = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    CertificateProblem,
)


def network(**options: Any) -> KafkaNetClient:
    """Make the network of one client: the value of its option `kafka_client`. The caller closes it."""
    selector = NetworkSelector(**options, slow_task_threshold_secs=_SLOW_TASK_SECONDS)
    return KafkaNetClient(net=selector, manager=_Connections(selector, **options))


class _Connections(KafkaConnectionManager):  # type: ignore[misc]  # kafka-python ships no types
    """A login or certificate that the first broker refuses is final; one that is refused later, when others work, is
    not. Of those, certificates are reported: a login can be refused for a moment, a wrong certificate stays.
    """

    async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
        await super()._connect(node, conn, **options)
        failure, server = conn.init_future.exception, f"{node.host}:{node.port}"
        if failure is None:
            DISTRUSTED.remove(self.config["client_id"], server)
            return
        # The client's own error has the error of a handshake as its context, that of a later read as its argument.
        for cause in (failure.__context__, *failure.args):
            cause = certificate_problem(cause, server, self.config)
            failure = cause or failure
        if not self.cluster.is_bootstrap(node.node_id):
            if isinstance(failure, CertificateProblem):
                DISTRUSTED.add(self.config["client_id"], server, str(failure.args[0]))
        elif isinstance(failure, _FINAL):
            self._auth_failures[node.node_id] = failure

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await self._connected_transport(node, timeout_at)
        receive = transport._sock_recv

        def data_before_the_end() -> tuple[bytes, Exception | None]:
            data, error = receive()
            return data, None if data else error  # the next call meets the end again

        transport._sock_recv = data_before_the_end
        return transport

    async def _connected_transport(self, node: Any, timeout_at: float | None) -> Any:
        """As the base class makes it; but after a failed handshake, that leaves the socket to the garbage collector."""
        if not self.ssl_enabled:
            return await super()._build_transport(node, timeout_at=timeout_at)
        sock = await create_connection(
            self._net, node.host, node.port, self.config["socket_options"],
            proxy_url=self.config["proxy_url"], timeout_at=timeout_at,
        )  # fmt: skip
        try:
            options = {name: value for name, value in self.config.items() if name.startswith("ssl_")}
            transport = KafkaSSLTransport(self._net, sock, host=node.host, **options)
        except BaseException:  # a certificate file cannot be read
            sock.close()
            raise
        try:
            await transport.handshake()
        except Exception as error:
            transport.abort(error)
            raise kafka_errors.KafkaConnectionError(f"Handshake failed: {error}") from error
        return transport
