"""Warnings of which each client gets one, however often it gives cause for it.

Owns who was warned of, in bounded memory, so that a client that invents names can neither fill it nor the log. Must not
know what is wrong with a client. No counterpart in Kafka, which says such things again for each request.
"""

import logging
from collections.abc import Hashable
from typing import Final

MOST_CLIENTS: Final = 1000


class ClientWarnings:
    """The clients that one logger has warned of."""

    def __init__(self, logger: logging.Logger, most: int = MOST_CLIENTS) -> None:
        self._logger = logger
        self._most = most
        self._warned: set[Hashable] = set()

    def warn(self, client: Hashable, message: str, *arguments: object) -> None:
        """Log a warning, unless one was logged for this client. The last one is followed by a line that says so."""
        if client in self._warned or len(self._warned) >= self._most:
            return
        self._warned.add(client)
        self._logger.warning(message, *arguments)
        if len(self._warned) == self._most:
            self._logger.warning("Those were %d clients since the start: further ones are not named", self._most)
