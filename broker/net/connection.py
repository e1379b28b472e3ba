"""The life of one connection: frames in, replies out in the order of their requests.

Owns turns, owed replies, muting and closing. Must not know any message: a `Dispatch` turns a frame into a reply.
Counterpart in Kafka: the Processor and KafkaChannel of SocketServer, there spread over threads and a queue.

How replies leave. What a turn answers leaves in one send at its end; only then are others told what it moved. A
deferred reply that somebody else completes puts its connection into the `Outbox`; the turn in which that happens
flushes the outbox when it ends, so that a completion does no I/O in the midst of a change of state, needs no task, and
waits for no further pass of the loop. Completions outside of any turn (timers, other tasks) wake the outbox's own task.
Who finds a socket full leaves the rest to a drain: the connection's own task after its own turn, else a task that ends
when the socket has taken everything.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import trio

from ottla.broker.loop.clock import Clock, Timer
from ottla.broker.loop.deferred import CloseConnection
from ottla.broker.net.buffers import Buffers, RequestMemory
from ottla.broker.net.outbox import Outbox, Sender
from ottla.broker.net.reply import Owed
from ottla.broker.net.transport import Chunk, Output, Transport
from ottla.wire.errors import DecodeError
from ottla.wire.framing import LEAST_ROOM, FrameBuffer, FrameSizeError

logger = logging.getLogger("kafka.network.Processor")

TURN_SECONDS: Final = 0.001
# What one connection may have in the house before its further frames wait in the socket.
MAX_OWED: Final = 64
MAX_OWED_BYTES: Final = 1 << 18

# Answers a frame: with a reply, with one that is owed, or (Produce with acks=0) not at all. DecodeError and
# CloseConnection end the connection.
Dispatch = Callable[[memoryview], "list[Chunk] | Owed | None"]


class Connection(Sender):
    """One client, from its first byte until its socket is closed."""

    __slots__ = (
        "_begun",
        "_buffer",
        "_buffers",
        "_clock",
        "_dispatch",
        "_draining",
        "_ending",
        "_held",
        "_idle_seconds",
        "_idle_timer",
        "_life",
        "_muted",
        "_nursery",
        "_on_no_frame",
        "_outbox",
        "_output",
        "_owed",
        "_owed_bytes",
        "_parked",
        "_reading",
        "_rest",
        "_transport",
        "_turn_clock",
        "_unread",
        "last_active",
        "name",
    )

    def __init__(
        self,
        name: str,
        transport: Transport,
        dispatch: Dispatch,
        outbox: Outbox,
        clock: Clock,
        buffers: Buffers,
        nursery: trio.Nursery,
        *,
        idle_seconds: float = float("inf"),
        on_no_frame: Callable[[int], None] = lambda size: None,
        turn_clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`on_no_frame` is told the size that a client announced and no frame has, which ends the connection."""
        self.name = name
        self._transport = transport
        self._dispatch = dispatch
        self._outbox = outbox
        self._clock = clock
        self._nursery = nursery
        self._on_no_frame = on_no_frame
        self._turn_clock = turn_clock
        self._buffers = buffers
        self._buffer: FrameBuffer | None = None
        # While there is no buffer: the few bytes of a frame that came so far, and the size that it announces.
        self._rest = b""
        self._begun = 0
        self._unread = 0
        self._held = 0
        self._output = Output()
        self._owed: list[list[Chunk] | Owed] = []
        self._owed_bytes = 0
        self._muted = False
        self._draining = False
        self._ending = False
        self._parked = trio.lowlevel.ParkingLot()
        self._life = trio.CancelScope()
        self._reading = trio.CancelScope()
        self._idle_seconds = idle_seconds
        self._idle_timer: Timer | None = None
        self.last_active = clock.monotonic()

    # Life

    async def run(self) -> None:
        """Serve the client until either side has had enough. Raises nothing but Cancelled."""
        orderly = False
        self._check_idle()
        try:
            with self._life:
                with self._reading:
                    await self._serve()
                await self._settle()
                orderly = True
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as gone:
            logger.debug("%s: %s", self.name, gone)
        except Exception:
            logger.exception("%s: closed because of a bug", self.name)
        finally:
            self._forget()
            await self._transport.close(orderly=orderly)

    def stop(self) -> None:
        """Read no more, let the owed replies leave, close. What a request still waits for is dropped."""
        self._ending = True
        self._reading.cancel()

    def abort(self) -> None:
        """Close now."""
        self._life.cancel()

    def _forget(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._held and self._buffers.memory is not None:
            self._buffers.memory.give_back(self._held)
        owed, self._owed = self._owed, []
        for reply in owed:
            if isinstance(reply, Owed):
                reply.deferred.abandon()

    def _check_idle(self) -> None:
        """One timer a connection, armed anew only when it fires: requests do not touch it."""
        if self._idle_seconds == float("inf"):
            return
        left = self.last_active + self._idle_seconds - self._clock.monotonic()
        if left > 0:
            self._idle_timer = self._clock.call_later(left, self._check_idle)
        else:
            self.abort()

    # Reading

    async def _serve(self) -> None:
        """Take turns until the client ends its side or breaks the protocol."""
        output = self._output
        memory = self._buffers.memory
        is_another = False
        while True:
            while not self._may_handle():
                await self._parked.park()
            if memory is not None and await self._has_waited_for(memory, is_another):
                is_another = False
                continue
            # A turn begins with a wait, never with `recv`: one flooding client would starve all others.
            buffer = self._buffer
            if buffer is not None and buffer.has_frame():
                await trio.lowlevel.checkpoint()
            else:
                await self._transport.readable()
                if buffer is None:
                    buffer = self._buffer = self._buffers.take(self._rest)
                    self._rest = b""
                count = self._transport.receive(buffer)
                if count is None:
                    continue
                if count == 0:
                    return
                self._unread += count
            self.last_active = self._clock.monotonic()
            unread = self._unread
            self._outbox.begin_turn()
            try:
                going_on = self._turn(buffer)
                is_another = self._unread < unread
                if self._unread < LEAST_ROOM and not buffer.has_frame():
                    self._begun = buffer.begun() if memory is not None else 0
                    self._rest = buffer.take_rest()
                    self._buffers.give_back(buffer)
                    self._buffer = None
                self._send()
            finally:
                self._outbox.end_turn()
            if output and not self._draining:
                await self._drain()
            if not going_on:
                return

    async def _has_waited_for(self, memory: RequestMemory, is_another: bool) -> bool:
        """Hold what the frame needs that has begun, and nothing for the one before it."""
        if is_another and self._held:
            memory.give_back(self._held)
            self._held = 0
        begun = self._begun if self._buffer is None else self._buffer.begun()
        if self._held or not begun:
            return False
        await memory.take(begun)
        self._held = begun
        return True

    def _may_handle(self) -> bool:
        return not self._muted and self._has_room()

    def _has_room(self) -> bool:
        return not (
            self._ending
            or self._draining
            or len(self._owed) >= MAX_OWED
            or self._owed_bytes + self._output.size >= MAX_OWED_BYTES
        )

    def _turn(self, buffer: FrameBuffer) -> bool:
        """Handle frames for a millisecond; False when the connection must end."""
        now = self._turn_clock
        until = now() + TURN_SECONDS
        output = self._output
        try:
            while (frame := buffer.next_frame()) is not None:
                self._unread -= 4 + len(frame)
                reply = self._dispatch(frame)
                if isinstance(reply, list) and not self._owed:
                    output.append(reply)
                    if output.size >= MAX_OWED_BYTES:
                        break
                elif reply is not None:
                    self._owe(reply)
                    if (self._muted and not self._may_repeat(reply, frame, buffer)) or not self._has_room():
                        break
                if now() >= until:
                    break
        except (DecodeError, CloseConnection) as reason:
            if isinstance(reason, FrameSizeError):
                self._on_no_frame(reason.size)
            else:
                logger.debug("%s: closing: %r", self.name, reason)
            return False
        return True

    @staticmethod
    def _may_repeat(reply: "list[Chunk] | Owed", frame: memoryview, buffer: FrameBuffer) -> bool:
        """Whether a frame follows that asks for the same as this one, and nothing can come between the two."""
        return isinstance(reply, Owed) and reply.deferred.repeatable and buffer.peek_api() == frame[:2]

    # Owed replies

    def _owe(self, reply: "list[Chunk] | Owed") -> None:
        self._owed.append(reply)
        if isinstance(reply, list):
            self._owed_bytes += sum(map(len, reply))
            return
        if not reply.deferred.applied:
            self._muted = True
        reply.deferred.then(partial(self._completed, reply), partial(self._close_instead, reply))

    def _completed(self, owed: Owed, response: Any) -> None:
        try:
            owed.encode(response)
        except Exception:
            logger.exception("%s: a reply cannot be encoded", self.name)
            self.abort()
            return
        self._owed_bytes += owed.size
        if self._owed and self._owed[0] is owed:
            self._outbox.add(self)

    def _close_instead(self, owed: Owed, reason: CloseConnection) -> None:
        logger.debug("%s: closing: %s", self.name, reason)
        self._owed.remove(owed)
        self.stop()
        self._outbox.add(self)

    def _advance(self) -> None:
        """Move the replies that are due, in order, to the output."""
        owed = self._owed
        while owed:
            first = owed[0]
            if not isinstance(first, Owed):
                reply, size = first, sum(map(len, first))
            elif first.reply is None:
                return
            else:
                reply, size = first.reply, first.size
            owed.pop(0)
            self._owed_bytes -= size
            self._output.append(reply)

    # Sending

    def flush(self) -> None:
        """Send what may leave; called by the outbox, in whoever's turn it is."""
        try:
            self._send()
        except OSError as gone:
            logger.debug("%s: %s", self.name, gone)
            self.abort()
            return
        self.last_active = self._clock.monotonic()
        if self._output and not self._draining:
            self._draining = True
            self._nursery.start_soon(self._drain_in_background)

    def _send(self) -> None:
        self._advance()
        if self._draining or (self._output and not self._transport.send_now(self._output)):
            return
        self._all_sent()

    def _all_sent(self) -> None:
        if not self._owed:
            self._muted = False
        if self._parked:
            self._parked.unpark_all()

    async def _drain(self) -> None:
        self._draining = True
        try:
            while self._output:
                await self._transport.send(self._output)
                self.last_active = self._clock.monotonic()
        finally:
            self._draining = False
        self._all_sent()

    async def _drain_in_background(self) -> None:
        try:
            await self._drain()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as gone:
            logger.debug("%s: %s", self.name, gone)
            self.abort()

    async def _settle(self) -> None:
        """Nothing is read any more: let what is owed leave."""
        if self._ending and self._owed:
            pending = self._owed[-1]
            if isinstance(pending, Owed) and pending.reply is None and not pending.deferred.applied:
                self._owed.pop()
                pending.deferred.abandon()
        while self._owed or self._output:
            if self._output and not self._draining:
                await self._drain()
            else:
                await self._parked.park()
