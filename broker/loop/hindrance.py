"""The reason why a repeated attempt fails, logged when the reason changes and not for each attempt.

Owns the memory of the last reason. Must not know what is attempted, nor when. No counterpart in Kafka, which logs each
attempt.
"""

import logging


class Hindrance:
    """The current reason why one subject fails; `why` is empty while it succeeds."""

    __slots__ = ("_free", "_is_logged", "_logger", "_stuck", "_subject", "why")

    def __init__(self, logger: logging.Logger, subject: object, stuck: str, free: str) -> None:
        """`stuck` and `free` are what the log says of the subject when it fails, and when it succeeds again."""
        self._logger = logger
        self._subject = subject
        self._stuck = stuck
        self._free = free
        self._is_logged = False
        self.why = ""

    def met(self, why: str, *, may_pass: bool = False) -> None:
        """Log a new reason. A reason that `may_pass` by itself is logged when it occurs a second time in a row."""
        is_new = why != self.why
        self._is_logged &= not is_new
        self.why = why
        if not self._is_logged and not (may_pass and is_new):
            self._is_logged = True
            self._logger.warning("%s %s: %s", self._subject, self._stuck, why)

    def passed(self) -> None:
        """Log that the subject succeeds again, if a reason was logged."""
        if self._is_logged:
            self._logger.info("%s %s", self._subject, self._free)
        self._is_logged = False
        self.why = ""
