import logging

import pytest

from ottla.broker.net.client_warnings import ClientWarnings

logger = logging.getLogger(__name__)


def test_each_client_has_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    warnings = ClientWarnings(logger)
    for client in ("one", "two", "one", "two"):
        warnings.warn(client, "%s does what it should not", client)
    assert caplog.messages == ["one does what it should not", "two does what it should not"]
    assert {each.levelno for each in caplog.records} == {logging.WARNING}


def test_clients_with_ever_new_names_fill_neither_the_memory_nor_the_log(caplog: pytest.LogCaptureFixture) -> None:
    warnings = ClientWarnings(logger, most=2)
    for client in range(1000):
        warnings.warn(client, "%d", client)
    last = "2 clients got a warning as the last one: further clients get none until the next start"
    assert caplog.messages == ["0", "1", last]
