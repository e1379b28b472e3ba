"""The sections of the page, with the rows and the columns of each."""

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
    """The rows of one table."""

    title: str
    features: Sequence[Feature]
    clients: Sequence[Client]


def sections() -> list[Section]:
    """Return all sections of the page."""
    clients = all_clients()
    return [
        Section("Writing", producing.ROWS, clients),
        Section("Reading", consuming.ROWS, clients),
        Section("Consumer groups", groups.ROWS, clients),
        Section("Transactions", transactions.ROWS, clients),
        Section("Administration", administration.ROWS, clients),
        Section("Security", security.ROWS, clients),
        Section("Other programs of Apache Kafka", frameworks.ROWS, releases()),
    ]
