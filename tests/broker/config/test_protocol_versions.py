"""The versions of requests that Kafka 3.9 uses under each protocol version."""

import pytest

from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.config.protocol_versions import protocol_versions, version_fault
from ottla.wire import messages
from ottla.wire.api_keys import ApiKey
from ottla.wire.config_def import ConfigError

# LeaderAndIsr, StopReplica, UpdateMetadata, Fetch, ListOffsets.
SPOKEN = {
    "2.8-IV0": (4, 3, 6, 12, 6),
    "2.8": (5, 3, 7, 12, 6),
    "3.0-IV0": (5, 3, 7, 12, 6),
    "3.0": (5, 3, 7, 12, 7),
    "3.1": (5, 3, 7, 13, 7),
    "3.2": (6, 3, 7, 13, 7),
    "3.3": (6, 3, 7, 13, 7),
    "3.4": (7, 4, 8, 13, 7),
    "3.5-IV0": (7, 4, 8, 14, 8),
    "3.5-IV1": (7, 4, 8, 15, 8),
    "3.5.2": (7, 4, 8, 15, 8),
    "3.6": (7, 4, 8, 15, 8),
    "3.7-IV3": (7, 4, 8, 15, 8),
    "3.7": (7, 4, 8, 16, 8),
    "3.8": (7, 4, 8, 16, 8),
    "3.9": (7, 4, 8, 17, 9),
    "3.9-IV0": (7, 4, 8, 17, 9),
}


@pytest.mark.parametrize(("text", "expected"), SPOKEN.items())
def test_a_protocol_version_fixes_the_versions_of_requests(text: str, expected: tuple[int, ...]) -> None:
    keys = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.FETCH, ApiKey.LIST_OFFSETS)
    versions = protocol_versions(text)
    assert tuple(versions[key] for key in keys) == expected
    assert (versions[ApiKey.OFFSET_FOR_LEADER_EPOCH], versions[ApiKey.WRITE_TXN_MARKERS]) == (4, 1)


@pytest.mark.parametrize("text", SPOKEN)
def test_every_version_of_the_table_exists(text: str) -> None:
    for key, version in protocol_versions(text).items():
        request_type = messages.request_type(key)
        assert request_type is not None
        assert version in request_type.versions


@pytest.mark.parametrize("text", ["", "2.7", "2.7-IV2", "0.10.0", "3", "3.9-IV1", "4.0", "3.9-", "3.9 ", "x"])
def test_an_unknown_protocol_version_is_refused(text: str) -> None:
    assert version_fault(text) is not None


def test_the_default_protocol_version_is_that_of_the_last_kafka_with_zookeeper() -> None:
    assert BrokerConfig({}).inter_broker_protocol_version == "3.9-IV0"
    assert BrokerConfig({"inter.broker.protocol.version": "3.4"}).inter_broker_protocol_version == "3.4"
    with pytest.raises(ConfigError, match=r"Invalid value 2\.7 for configuration inter\.broker\.protocol\.version: "):
        BrokerConfig({"inter.broker.protocol.version": "2.7"})
