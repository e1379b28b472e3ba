"""The life of one connection: frames in, replies out in the order of their requests.

Owns turns, owed replies, muting and closing. Must not know any message: a `Dispatch` turns a frame into a reply.
Counterpart in Kafka: the Processor and KafkaChannel of SocketServer, there spread over threads and a queue.

| state    | in the code      | meaning                                                    | ends when                 |
|----------|------------------|------------------------------------------------------------|---------------------------|
| reading  | `_is_reading()`  | bytes are received and frames are handled, in turns        | another state begins      |
| waiting  | `_hold_memory()` | a frame has begun, and queued.max.request.bytes are in use | a request returns memory  |
| muted    | `_muted`         | a request whose effect is still to come is owed its reply  | all owed replies are sent |
| full     | `_is_full()`     | MAX_OWED replies or MAX_OWED_BYTES are owed                | replies are sent          |
| draining | `_draining`      | the socket is full, a task sends the rest of the replies   | the rest is sent          |
| ending   | `_end()`         | no frame is read any more, owed replies are still sent     | no reply is owed: closed  |
| closed   | `_forget()`      | the socket is closed, deferred replies are abandoned       | never                     |

Muted, full and draining may hold together; the connection's task is parked in `_parked` until none of them holds.
Ending begins when the client ends its side, when a frame ends the connection (DecodeError, CloseConnection), and with
`stop`, which alone drops the reply of a request whose effect is still to come (`_stopped`). From every state, `abort`,
an error of the socket or a bug lead to closed.

How replies leave. `_send` sends all replies of a turn in one call at its end. Code that completes a deferred reply adds
its connection to the `Outbox`. The end of the current turn flushes the outbox, so that completing a reply does no I/O
and needs no task. Without a turn, the outbox's own task flushes it. When the socket is full, a drain sends the rest: in
the connection's own task after its own turn, else in a new task.
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
from ottla.broker.net.transport import Output, SocketTransport
from ottla.wire.codec import Chunk
from ottla.wire.errors import DecodeError
from ottla.wire.framing import LEAST_ROOM, FrameBuffer, FrameSizeError

logger = logging.getLogger("kafka.network.Processor")

TURN_SECONDS: Final = 0.001
# The most replies, and the most bytes of them, that one connection may be owed before its next frames wait.
MAX_OWED: Final = 64
MAX_OWED_BYTES: Final = 1 << 18

# Returns a frame's reply, or an Owed for a reply that comes later, or None for no reply (Produce with acks=0).
# DecodeError and CloseConnection end the connection.
Dispatch = Callable[[memoryview], "list[Chunk] | Owed | None"]


class Connection(Sender):
    """One client, until its socket is closed. The states are in the table above."""

    __slots__ = (
        "_begun",
        "_buffer",
        "_buffers",
        "_clock",
        "_dispatch",
        "_draining",
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
        "_stopped",
        "_transport",
        "_turn_clock",
        "_unread",
        "last_active",
        "name",
    )

    def __init__(
        self,
        name: str,
        transport: SocketTransport,
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
        """`on_no_frame(size)` is called when a client announces a size that no frame has, which ends the connection."""
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
        # Without a buffer: the received part of a frame (less than LEAST_ROOM bytes), and the size of that frame.
        self._rest = b""
        self._begun = 0
        # Received bytes that are in no handled frame yet.
        self._unread = 0
        # Bytes of request memory that this connection holds.
        self._held = 0
        self._output = Output()
        self._owed: list[list[Chunk] | Owed] = []
        self._owed_bytes = 0
        self._muted = False
        self._draining = False
        self._stopped = False
        self._parked = trio.lowlevel.ParkingLot()
        self._life = trio.CancelScope()
        self._reading = trio.CancelScope()
        self._idle_seconds = idle_seconds
        self._idle_timer: Timer | None = None
        self.last_active = clock.monotonic()

    # Life

    async def run(self) -> None:
        """Serve the client until the connection is closed. Raises nothing but Cancelled."""
        orderly = False
        self._check_idle()
        try:
            with self._life:
                with self._reading:
                    await self._serve()
                await self._end()
                orderly = True
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as gone:
            logger.debug("%s: closed, because of its socket: %s", self.name, gone)
        except Exception:
            logger.exception("%s: closed because of a bug", self.name)
        finally:
            self._forget()
            await self._transport.close(orderly=orderly)

    def stop(self) -> None:
        """Read no more, send the owed replies, close. Drop the reply of a request whose effect is still to come."""
        self._stopped = True
        self._reading.cancel()

    def abort(self) -> None:
        """Close now."""
        self._life.cancel()

    def _forget(self) -> None:
        """Return the memory, and abandon the deferred replies, because no one waits for them any more."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._held and self._buffers.memory is not None:
            self._buffers.memory.give_back(self._held)
        owed, self._owed = self._owed, []
        for reply in owed:
            if isinstance(reply, Owed):
                reply.deferred.abandon()

    def _check_idle(self) -> None:
        """Abort a connection that was idle for too long. The timer is set again only when it fires, not by requests."""
        if self._idle_seconds == float("inf"):
            return
        left = self.last_active + self._idle_seconds - self._clock.monotonic()
        if left > 0:
            self._idle_timer = self._clock.call_later(left, self._check_idle)
        else:
            self.abort()

    # Reading

    async def _serve(self) -> None:
        """Take turns until the client ends its side or a frame ends the connection."""
        output = self._output
        memory = self._buffers.memory
        took_frame = False
        while True:
            while not self._is_reading():
                await self._parked.park()
            if memory is not None and await self._hold_memory(memory, took_frame):
                took_frame = False
                continue
            # A turn begins with a wait, never with `recv`, because one flooding client would starve all others.
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
                took_frame = self._unread < unread
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

    async def _hold_memory(self, memory: RequestMemory, took_frame: bool) -> bool:
        """Hold memory for the frame that has begun, and return whether that is new: it may have needed a wait.

        `took_frame`: the last turn handled a frame, so that the memory held for it is returned first.
        """
        if took_frame and self._held:
            memory.give_back(self._held)
            self._held = 0
        begun = self._begun if self._buffer is None else self._buffer.begun()
        if self._held or not begun:
            return False
        await memory.take(begun)
        self._held = begun
        return True

    def _is_reading(self) -> bool:
        return not (self._muted or self._stopped or self._draining or self._is_full())

    def _is_full(self) -> bool:
        return len(self._owed) >= MAX_OWED or self._owed_bytes + self._output.size >= MAX_OWED_BYTES

    def _turn(self, buffer: FrameBuffer) -> bool:
        """Handle frames for TURN_SECONDS. Return False if the connection must end."""
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
                    if (
                        (self._muted and not self._may_repeat(reply, frame, buffer))
                        or self._stopped
                        or self._draining
                        or self._is_full()
                    ):
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
        """Whether the reply is repeatable and the next frame is of the same API, so that it may follow at once."""
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
            logger.exception("%s: a reply cannot be encoded, the connection is closed", self.name)
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
        """Move complete replies to the output, in the order of their requests, up to the first that is not complete."""
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
        """Send the replies that are complete. The outbox calls this, also in the turn of another connection."""
        try:
            self._send()
        except OSError as gone:
            logger.debug("%s: closed, because of its socket: %s", self.name, gone)
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
            logger.debug("%s: closed, because of its socket: %s", self.name, gone)
            self.abort()

    async def _end(self) -> None:
        """Send the owed replies; no frame is read any more."""
        if self._stopped and self._owed:
            pending = self._owed[-1]
            if isinstance(pending, Owed) and pending.reply is None and not pending.deferred.applied:
                self._owed.pop()
                pending.deferred.abandon()
        while self._owed or self._output:
            if self._output and not self._draining:
                await self._drain()
            else:
                await self._parked.park()
