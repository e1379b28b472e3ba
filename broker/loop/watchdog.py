"""Who blocks the loop: a thread that looks every 25 ms whether the loop still has its turns.

Owns the question to the loop, and what is said when it is not answered. Must not know what runs on the loop. No
counterpart in Kafka, whose requests have threads of their own; here a call that blocks is one for all clients.

A loop that is not waiting for events is asked for a sign. When that is late by more than 50 ms, the stack of the loop's
thread says who keeps it, provided that it is the same task at every look: many connections that are at work may take
that long together, which is load and no fault. Requests and turns pay nothing, and a loop at rest is not woken. What
blocks for less than 75 ms may go unseen, what blocks for less than 50 is never told.
"""

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Final

import trio

logger = logging.getLogger("ottla.watchdog")

PERIOD_SECONDS: Final = 0.025
BLOCKED_SECONDS: Final = 0.05
# A sign that is so late is suspicious, and looked after so often.
SUSPICIOUS_SECONDS: Final = 0.01
CLOSELY_SECONDS: Final = 0.005
# After a failure of its own it rests, longer each time.
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 60.0

# Frames with the lines that they are at, innermost first.
_Stack = list[tuple[FrameType, int]]


class Watchdog:
    """The thread that watches the loop which `run` runs on."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._thread_id = threading.get_ident()
        self._loop: FrameType | None = None
        self._is_over = False
        # When a sign was asked for, and when it came; infinite while none is asked for, or none has come.
        self._asked = float("inf")
        self._came = float("inf")

    async def run(self) -> None:
        """Watch until cancelled."""
        # Below this frame it is trio that runs, above it a task.
        self._loop = sys._getframe().f_back
        token = trio.lowlevel.current_trio_token()
        threading.Thread(target=self._keep_watching, args=(token,), name="watchdog", daemon=True).start()
        try:
            await trio.sleep_forever()
        finally:
            self._is_over = True

    def _sign(self) -> None:
        self._came = self._clock()

    def _ask(self, token: trio.lowlevel.TrioToken) -> None:
        self._came = float("inf")
        self._asked = self._clock()
        try:
            token.run_sync_soon(self._sign, idempotent=True)
        except trio.RunFinishedError:
            self._is_over = True

    def _keep_watching(self, token: trio.lowlevel.TrioToken) -> None:
        """Watch until it is over, and again whenever that fails."""
        pause = FIRST_PAUSE_SECONDS
        while not self._is_over:
            try:
                self._watch(token)
            except Exception:
                logger.exception("The watchdog failed, it watches again in %g s", pause)
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self._loop = None

    def _watch(self, token: trio.lowlevel.TrioToken) -> None:
        while not self._is_over:
            began = self._clock()
            time.sleep(PERIOD_SECONDS)
            late = self._clock() - began - PERIOD_SECONDS
            stack = self._look()
            if self._is_over or _is_at_rest(stack):
                continue
            if late > BLOCKED_SECONDS:
                # So was this thread: by a call that keeps the interpreter to itself, and that has just ended there.
                self._tell("The process stood still for %d ms", late, stack)
            self._ask(token)
            time.sleep(SUSPICIOUS_SECONDS)
            if self._came == float("inf"):
                self._watch_closely()

    def _watch_closely(self) -> None:
        """Return when the sign has come, or when another task has the loop than the one that kept it."""
        stack = self._look()
        is_told = False
        while not self._is_over:
            time.sleep(CLOSELY_SECONDS)
            came = self._came
            late = (self._clock() if came == float("inf") else came) - self._asked
            now = self._look()
            if came == float("inf") and now[-1][0] is stack[-1][0] and not _is_at_rest(now):
                stack = now
                if late > BLOCKED_SECONDS and not is_told:
                    self._tell("The loop is blocked, for %d ms so far", late, stack)
                    is_told = True
                continue
            if late > BLOCKED_SECONDS and (is_told or came != float("inf")):
                self._tell("The loop was blocked for %d ms", late, None if is_told else stack)
            return

    def _look(self) -> _Stack:
        """Return where the loop's thread is: in a task from its outermost frame on, in trio from the thread's."""
        found: _Stack = []
        frame: FrameType | None = sys._current_frames()[self._thread_id]
        while frame is not None:
            found.append((frame, frame.f_lineno))
            frame = None if frame.f_back is self._loop else frame.f_back
        return found

    def _tell(self, message: str, seconds: float, stack: _Stack | None) -> None:
        text = "".join(traceback.StackSummary.extract(iter(reversed(stack))).format()) if stack else None
        arguments = (round(seconds * 1000),)
        record = logger.makeRecord(logger.name, logging.WARNING, __file__, 0, message, arguments, None, sinfo=text)
        logger.handle(record)


def _is_at_rest(stack: _Stack) -> bool:
    """Whether the loop waits for events. Were trio's function called otherwise, a loop at rest would be asked too."""
    return stack[0][0].f_code.co_name == "get_events"
