"""The sections of the page: which rows, and with which columns they are tried."""

from collections.abc import Sequence
from typing import NamedTuple

from compat_tests.compatibility.clients import Client, all_clients, releases
from compat_tests.compatibility.features import (
    administration,
    consuming,
    frameworks,
    groups,
    producing,
    security,
    transactions,
)
from compat_tests.compatibility.features.declaring import Feature


class Section(NamedTuple):
    """Rows that are one table."""

    title: str
    features: Sequence[Feature]
    clients: Sequence[Client]


def sections() -> list[Section]:
    """Return all of the page."""
    clients = all_clients()
    return [
        Section("Writing", producing.ROWS, clients),
        Section("Reading", consuming.ROWS, clients),
        Section("Consumer groups", groups.ROWS, clients),
        Section("Transactions", transactions.ROWS, clients),
        Section("Administration", administration.ROWS, clients),
        Section("Security", security.ROWS, clients),
        Section("Programs of Apache Kafka's", frameworks.ROWS, releases()),
    ]
