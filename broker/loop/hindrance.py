"""Why something does not succeed that is tried again and again: logged when the reason changes, not for each attempt.

Owns the memory of the last reason. Must not know what is tried, nor when. No counterpart in Kafka: it logs
each attempt.
"""

import logging


class Hindrance:
    """The present reason of one subject; `why` is empty while there is none."""

    __slots__ = ("_free", "_is_logged", "_logger", "_stuck", "_subject", "why")

    def __init__(self, logger: logging.Logger, subject: object, stuck: str, free: str) -> None:
        """`stuck` and `free` say of the subject that it does not succeed, and that it does again."""
        self._logger = logger
        self._subject = subject
        self._stuck = stuck
        self._free = free
        self._is_logged = False
        self.why = ""

    def met(self, why: str, *, may_pass: bool = False) -> None:
        """Log the reason once. One that `may_pass` by itself is logged when it comes a second time in a row."""
        is_new = why != self.why
        self._is_logged &= not is_new
        self.why = why
        if not self._is_logged and not (may_pass and is_new):
            self._is_logged = True
            self._logger.warning("%s %s: %s", self._subject, self._stuck, why)

    def passed(self) -> None:
        """Log that there is no reason any more, if one was logged."""
        if self._is_logged:
            self._logger.info("%s %s", self._subject, self._free)
        self._is_logged = False
        self.why = ""
