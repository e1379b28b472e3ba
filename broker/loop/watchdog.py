"""A thread that finds what blocks the loop.

Owns the question to the loop, and the log lines when no answer comes. Must not know what runs on the loop. No
counterpart in Kafka, whose requests have threads of their own; here a blocking call stops all clients.

Every PERIOD_SECONDS the thread asks a loop that is not waiting for events for a sign. If the sign is later than
BLOCKED_SECONDS, the thread logs the stack of the loop's thread, provided that every look found the same task: many busy
connections may take that long together, which is load and no fault. Requests and turns pay nothing, and a loop at rest
is not woken. A block shorter than BLOCKED_SECONDS is never logged, one a little longer not always.
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
# The thread watches the loop closely once a sign is this late: how late, and the seconds between looks.
SUSPICIOUS_SECONDS: Final = 0.01
CLOSELY_SECONDS: Final = 0.005
# The pauses after failures of the watchdog itself, each twice as long as the one before.
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 60.0

# Frames with their current lines, innermost first.
_Stack = list[tuple[FrameType, int]]


class Watchdog:
    """The thread that watches the loop on which `run` runs."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._thread_id = threading.get_ident()
        self._loop: FrameType | None = None
        self._is_over = False
        # When a sign was asked for, and when it came; infinite before that.
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
        """Watch until `run` ends, and start again after a failure."""
        pause = FIRST_PAUSE_SECONDS
        while not self._is_over:
            try:
                self._watch(token)
            except Exception:
                logger.exception("The watchdog failed; it starts again in %g s", pause)
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
                # This thread stood still too, because of a call that held the interpreter and has just ended.
                self._log("The process stood still for %d ms", late, stack)
            self._ask(token)
            time.sleep(SUSPICIOUS_SECONDS)
            if self._came == float("inf"):
                self._watch_closely()

    def _watch_closely(self) -> None:
        """Log a block and its end. Return when the sign has come, or when another task has the loop."""
        stack = self._look()
        is_logged = False
        while not self._is_over:
            time.sleep(CLOSELY_SECONDS)
            came = self._came
            late = (self._clock() if came == float("inf") else came) - self._asked
            now = self._look()
            if came == float("inf") and now[-1][0] is stack[-1][0] and not _is_at_rest(now):
                stack = now
                if late > BLOCKED_SECONDS and not is_logged:
                    self._log("The loop is blocked, for %d ms so far", late, stack)
                    is_logged = True
                continue
            if late > BLOCKED_SECONDS and (is_logged or came != float("inf")):
                self._log("The loop was blocked for %d ms", late, None if is_logged else stack)
            return

    def _look(self) -> _Stack:
        """Return the stack of the loop's thread, of a running task its own frames only."""
        found: _Stack = []
        frame: FrameType | None = sys._current_frames()[self._thread_id]
        while frame is not None:
            found.append((frame, frame.f_lineno))
            frame = None if frame.f_back is self._loop else frame.f_back
        return found

    def _log(self, message: str, seconds: float, stack: _Stack | None) -> None:
        text = "".join(traceback.StackSummary.extract(iter(reversed(stack))).format()) if stack else None
        arguments = (round(seconds * 1000),)
        record = logger.makeRecord(logger.name, logging.WARNING, __file__, 0, message, arguments, None, sinfo=text)
        logger.handle(record)


def _is_at_rest(stack: _Stack) -> bool:
    """Whether the loop waits for events. If trio renames its function, a loop at rest is asked for a sign too."""
    return stack[0][0].f_code.co_name == "get_events"
