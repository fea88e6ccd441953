"""A TCP proxy between client and broker that cuts, delays, holds back, or swallows what the broker says.

A port of 127.0.0.1 behaves like the broker until a fault begins. `heal` ends the fault. A connection that has lost
bytes is cut then, because no client could go on with it. All proxies share one thread.
"""

import asyncio
import threading
from functools import cache
from typing import Self

HOST = "127.0.0.1"
_CHUNK = 2**16


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="proxy", daemon=True).start()
    return loop


class Proxy:
    """Forwards connections to `port` to the broker's port `target`, for the duration of a `with` block."""

    def __init__(self, port: int, target: int) -> None:
        self.port, self.target = port, target
        self.delay = 0.0  # seconds, for each piece of each direction
        self._is_cut = False
        self._swallows = False
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Break all connections and accept none."""
        self._is_cut = True
        _loop().call_soon_threadsafe(self._abort)

    def stall(self) -> None:
        """Hold everything back, with the connections open, as when packets vanish."""
        _loop().call_soon_threadsafe(self._flows.clear)

    def swallow(self) -> None:
        """Forward what clients ask, and swallow the answers: the broker has acted, and no client learns of it."""
        self._swallows = True

    def heal(self) -> None:
        """End the fault."""
        self.delay = 0.0
        self._is_cut = False
        if self._swallows:
            self._swallows = False
            _loop().call_soon_threadsafe(self._abort)
        _loop().call_soon_threadsafe(self._flows.set)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            its_reader, its_writer = await asyncio.open_connection(HOST, self.target)
        except OSError:
            writer.transport.abort()
            return
        pumps = [
            asyncio.ensure_future(self._pump(reader, its_writer, False)),
            asyncio.ensure_future(self._pump(its_reader, writer, True)),
        ]
        self._tasks |= set(pumps)
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._tasks -= set(pumps)
            for one in pumps:
                one.cancel()
            for end in (writer, its_writer):
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_answer: bool) -> None:
        try:
            while piece := await reader.read(_CHUNK):
                if self.delay:
                    await asyncio.sleep(self.delay)
                await self._flows.wait()
                if is_answer and self._swallows:
                    continue
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass  # one end has gone; the other follows

    def _abort(self) -> None:
        for pump in self._tasks:
            pump.cancel()  # its connection is aborted with it

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._connected, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self._flows.set()
        self._abort()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def __enter__(self) -> Self:
        asyncio.run_coroutine_threadsafe(self._start(), _loop()).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), _loop()).result(10)
