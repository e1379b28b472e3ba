"""Warnings that are logged once for each client.

Owns the set of these clients. It is bounded, because a client that invents names must fill neither memory nor log. Must
not know the reason of a warning. No counterpart in Kafka, which logs such a warning for each request.
"""

import logging
from collections.abc import Hashable
from typing import Final

MOST_CLIENTS: Final = 1000


class ClientWarnings:
    """The clients for which one logger has logged a warning."""

    def __init__(self, logger: logging.Logger, most: int = MOST_CLIENTS) -> None:
        self._logger = logger
        self._most = most
        self._warned: set[Hashable] = set()

    def warn(self, client: Hashable, message: str, *arguments: object) -> None:
        """Log a warning, unless one was logged for this client or for `most` clients. The last one says so."""
        if client in self._warned or len(self._warned) >= self._most:
            return
        self._warned.add(client)
        self._logger.warning(message, *arguments)
        if len(self._warned) == self._most:
            self._logger.warning(
                "%d clients got a warning as the last one: further clients get none until the next start", self._most
            )
