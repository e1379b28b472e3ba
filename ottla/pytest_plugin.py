"""The pytest fixture `kafka_broker`. Imported at the start of every pytest run, so it imports nothing itself."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.embed import Broker


@pytest.fixture(scope="session")
def kafka_broker() -> "Iterator[Broker]":
    """One broker for the whole run; `kafka_broker.bootstrap` is where clients connect."""
    from ottla.embed import Broker

    with Broker() as broker:
        yield broker
