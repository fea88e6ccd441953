"""The network below kafka-python's clients, so that a refused login is said and ends the worker.

In: the options that a client's constructor hands on. Out: the network that it works with. Two things of the library
(3.0) are mended, without which a wrong password looks like a broker that is away:

- A broker that refuses a login answers and hangs up. Answer and end of the stream come together, and the transport
  throws away what it has read before the end; nine times in ten the answer was lost.
- While it looks for its first broker the client notes a refusal in the log and tries on until the time is over.
"""

from typing import Any

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

# The client warns of a hang when reading from a socket takes longer than this. A fetch of 16 MB is read in one go, in
# .1 to .25 s while all other threads are busy; its own limit, .1 s, would fill the log with warnings of nothing.
_SLOW_TASK_SECONDS = 1.0


def network(**options: Any) -> KafkaNetClient:
    """What a client's `kafka_client` option makes its network by; whoever called closes it."""
    selector = NetworkSelector(**options, slow_task_threshold_secs=_SLOW_TASK_SECONDS)
    return KafkaNetClient(net=selector, manager=_Connections(selector, **options))


class _Connections(KafkaConnectionManager):  # type: ignore[misc]  # kafka-python ships no types
    """A login that is refused by the first broker is final; one that is refused later, when others work, is not."""

    async def _connect(self, node: Any, conn: Any, **how: Any) -> None:
        await super()._connect(node, conn, **how)
        failure = conn.init_future.exception
        if isinstance(failure, kafka_errors.SaslAuthenticationFailedError) and self.cluster.is_bootstrap(node.node_id):
            self._auth_failures[node.node_id] = failure

    async def _build_transport(self, *args: Any, **how: Any) -> Any:
        transport = await super()._build_transport(*args, **how)
        receive = transport._sock_recv

        def what_came_before_the_end() -> tuple[bytes, Exception | None]:
            data, error = receive()
            return data, None if data else error  # the next call meets the end again

        transport._sock_recv = what_came_before_the_end
        return transport
