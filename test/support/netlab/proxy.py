"""A TCP proxy that misbehaves on demand: what networks do to connections, without any help from the kernel.

It hands bytes on in order and loses none, as TCP does; a lost packet shows itself to programs as a stall, and so it is
made here. For lost packets themselves there is Lab.drop.
"""
import asyncio
import contextlib
import os
import random
import socket
import struct
import threading

CHUNK = 65536
QUEUE_MAX = 256  # chunks on their way in one direction; more stay with the sender
DEADLINE = 60
# linux/tcp.h; the socket module has no names for them. Linux has the second one since 6.15.
TCP_THIN_LINEAR_TIMEOUTS, TCP_RTO_MIN_US = 16, 45
BOTH = ("to_target", "to_client")


class Proxy:
    """Forwards connections to `target`, a (host, port). May be changed at any time, for connections that are open too:

    delay, jitter    seconds each chunk is on its way: delay, and a random part of jitter on top
    bandwidth        bytes per second in each direction of each connection; None: as fast as it goes
    stall_chance, stall   this part of the chunks takes `stall` seconds more, as if a packet had to be sent again

    In `with host.network():` the proxy stands on that host. `seed` makes the choices repeat.
    """

    def __init__(self, target, listen=("127.0.0.1", 0), delay=0.0, jitter=0.0, bandwidth=None, stall_chance=0.0,
                 stall=0.2, seed=0):
        self.target = target
        self.delay, self.jitter, self.bandwidth = delay, jitter, bandwidth
        self.stall_chance, self.stall = stall_chance, stall
        self.connections_seen = 0
        self._random = random.Random(seed)
        self._listening = _listener(listen)
        self.address = self._listening.getsockname()[:2]
        self._connections = set()
        self._closed_ways, self._gate, self._accepting = set(), None, None
        self._loop = asyncio.new_event_loop()
        # The thread is born on the network that this thread is on now, and makes its connections there.
        self._thread = threading.Thread(target=self._run, name="netlab proxy", daemon=True)
        self._thread.start()
        self._do(self._open)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def connections(self):
        return len(self._connections)

    def freeze(self, *ways):
        """Hand nothing on, in these directions ("to_target", "to_client") or both; connections stay open and senders
        fill their buffers. New connections are accepted and as silent."""
        self._do(self._change_gate, set(ways or BOTH), set())

    def thaw(self, *ways):
        self._do(self._change_gate, set(), set(ways or BOTH))

    def reset(self):
        """End every connection with RST on both sides, as a firewall that lost its state does."""
        self._do(self._reset)

    def half_open(self):
        """The target sees its connections reset; the clients hear nothing and stay connected to nobody."""
        self._do(self._half_open)

    def refuse(self):
        """New connections are refused; open ones go on."""
        self._do(self._refuse)

    def accept(self):
        """Take connections again after refuse(), on the same address."""
        self._do(self._open)

    def close(self):
        """Reset what is open and end."""
        if self._loop.is_closed():
            return
        self._do(self._refuse)
        self._do(self._reset)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE)

    # -- on the proxy's thread

    def _do(self, call, *arguments):
        async def step():
            result = call(*arguments)
            if asyncio.iscoroutine(result):
                await result
        asyncio.run_coroutine_threadsafe(step(), self._loop).result(DEADLINE)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        finally:
            self._loop.close()

    async def _open(self):
        self._gate = self._gate or asyncio.Condition()
        if self._accepting:
            return
        if self._listening.fileno() < 0:
            with_family = socket.AF_INET6 if ":" in self.address[0] else socket.AF_INET
            self._listening = _listener(self.address, with_family)
        self._accepting = asyncio.ensure_future(self._accept())

    async def _refuse(self):
        if self._accepting:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
            self._accepting = None
        self._listening.close()

    async def _accept(self):
        while True:
            client, _ = await self._loop.sock_accept(self._listening)
            self.connections_seen += 1
            connection = _Connection(self, client)
            self._connections.add(connection)
            connection.task = asyncio.ensure_future(connection.serve())
            connection.task.add_done_callback(lambda _, ended=connection: self._connections.discard(ended))

    async def _change_gate(self, closed, opened):
        async with self._gate:
            self._closed_ways = (self._closed_ways | closed) - opened
            self._gate.notify_all()

    async def _reset(self):
        ended = [connection.task for connection in self._connections]
        for connection in list(self._connections):
            connection.reset_client()
            connection.reset_target()
            connection.task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)

    async def _half_open(self):
        for connection in list(self._connections):
            connection.abandon()

    async def pass_gate(self, way):
        async with self._gate:
            await self._gate.wait_for(lambda: way not in self._closed_ways)

    def travel_time(self):
        late = self._random.random() < self.stall_chance
        return self.delay + self._random.random() * self.jitter + (self.stall if late else 0)


class _Connection:
    """A client's connection and the one to the target."""

    def __init__(self, proxy, client):
        self.task = None
        self._proxy, self._client, self._target = proxy, client, None
        self._pumps, self._abandoned = [], False

    async def serve(self):
        try:
            try:
                await self._forward()
            except OSError:  # one side is gone in a hurry: so goes the other
                self.reset_target()
                if not self._abandoned:
                    self.reset_client()
            except asyncio.CancelledError:
                if asyncio.current_task().cancelling():  # we, not only the pumps
                    raise
            if self._abandoned:
                await asyncio.Event().wait()  # the client keeps its connection until the proxy resets it or closes
        finally:
            for pump in self._pumps:
                pump.cancel()
            self._client.close()
            if self._target:
                self._target.close()

    async def _forward(self):
        host, port = self._proxy.target
        self._target = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        for end in (self._client, self._target):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # It stands between two programs that both set these, and would be what a network never is: a third TCP.
            end.setsockopt(socket.IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1)
            with contextlib.suppress(OSError):
                end.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MIN_US, 50_000)
        await asyncio.get_running_loop().sock_connect(self._target, (host, port))
        self._pumps = [asyncio.ensure_future(pump) for pump in (
            self._read_and_write(self._client, self._target, "to_target"),
            self._read_and_write(self._target, self._client, "to_client"))]
        await asyncio.gather(*self._pumps)

    async def _read_and_write(self, source, sink, way):
        queue = asyncio.Queue(QUEUE_MAX)
        reading = asyncio.ensure_future(self._read(source, queue))
        try:
            await self._write(sink, way, queue)
            await reading
        finally:
            reading.cancel()

    async def _read(self, source, queue):
        loop, due, sent = asyncio.get_running_loop(), 0.0, 0.0
        while True:
            try:
                data = await loop.sock_recv(source, CHUNK)
            except OSError as error:
                data = error
            now = loop.time()
            if isinstance(data, bytes) and self._proxy.bandwidth:
                sent = max(sent, now) + len(data) / self._proxy.bandwidth
            due = max(due, max(sent, now) + self._proxy.travel_time())  # nothing overtakes
            await queue.put((due, data))
            if not data or isinstance(data, OSError):
                return

    async def _write(self, sink, way, queue):
        loop = asyncio.get_running_loop()
        while True:
            due, data = await queue.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())  # tidy: allow sleep, because a delay is what it is for
            await self._proxy.pass_gate(way)
            if isinstance(data, OSError):
                raise data
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            await loop.sock_sendall(sink, data)

    def abandon(self):
        self._abandoned = True
        self.reset_target()
        for pump in self._pumps:
            pump.cancel()

    def reset_client(self):
        _reset(self._client)

    def reset_target(self):
        if self._target:
            _reset(self._target)


def _listener(address, family=None):
    """A listening socket; a port that it had before is taken again."""
    family = family or (socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"listening on {address[0]}:{address[1]}: {os.strerror(error.errno)}") from error
    listening.listen(1024)
    listening.setblocking(False)
    return listening


def _reset(end):
    """Close with RST instead of FIN: what linger with no time does."""
    if end.fileno() < 0:
        return
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    asyncio.get_running_loop().remove_reader(end)
    asyncio.get_running_loop().remove_writer(end)
    end.close()
