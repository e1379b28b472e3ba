"""The broker's configuration as it changes: precedence, checks, subscribers."""

import pytest

from ottla.broker.config.broker_config import BrokerConfig
from ottla.broker.config.dynamic import DynamicConfig, key_of, synonyms_of
from ottla.wire.config_def import ConfigError

REFUSED_BY_A_PART = (
    "Invalid value org.apache.kafka.common.config.ConfigException: {} for configuration Invalid dynamic configuration"
)


def dynamic(**static: str) -> DynamicConfig:
    return DynamicConfig(BrokerConfig({name.replace("_", "."): text for name, text in static.items()}))


def fault(config: DynamicConfig, wanted: dict[str, str], *, per_broker: bool = True) -> str:
    with pytest.raises(ConfigError) as caught:
        config.check(wanted, per_broker=per_broker)
    return str(caught.value)


async def test_a_value_for_the_broker_counts_before_one_for_all_and_this_before_the_file() -> None:
    config = dynamic(log_retention_ms="1000")
    default, own = {"log.retention.ms": "2000"}, {"log.retention.ms": "3000"}
    for levels, value in ((({}, {}), 1000), ((default, {}), 2000), ((default, own), 3000), (({}, own), 3000)):
        await config.update(*levels)
        assert config.current.values["log.retention.ms"] == value
        assert config.log_defaults.values["retention.ms"] == value


async def test_a_level_that_sets_one_unit_hides_the_others_in_lower_levels() -> None:
    config = dynamic(log_roll_ms="1000", log_roll_hours="1")
    await config.update({"log.roll.ms": "5"}, {})
    assert config.current.values["log.roll.ms"] == 5
    assert "log.roll.hours" not in config.current.texts
    await config.update({}, {})
    assert config.current.values["log.roll.ms"] == 1000


async def test_subscribers_are_called_when_their_keys_have_new_values_in_force() -> None:
    config = dynamic(log_retention_ms="1000")
    calls: list[tuple[str, object]] = []

    async def retention(current: BrokerConfig) -> None:
        calls.append(("retention", current.values["log.retention.ms"]))

    async def bytes_(current: BrokerConfig) -> None:
        calls.append(("bytes", config.current.values["message.max.bytes"]))

    config.subscribe(["log.retention.ms", "log.retention.bytes"], retention)
    config.subscribe(["message.max.bytes"], bytes_)
    await config.update({"log.retention.ms": "1000"}, {"log.segment.bytes": "70"})
    assert calls == []
    await config.update({"log.retention.ms": "1000"}, {"message.max.bytes": "5"})
    assert calls == [("bytes", 5)]
    await config.update({"log.retention.ms": "7"}, {})
    assert calls == [("bytes", 5), ("retention", 7), ("bytes", 1_048_588)]


async def test_a_subscriber_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    config = dynamic()
    calls = []

    async def fails(current: BrokerConfig) -> None:
        raise ZeroDivisionError

    async def works(current: BrokerConfig) -> None:
        calls.append(current)

    config.subscribe(["log.retention.ms"], fails)
    config.subscribe(["log.retention.ms"], works)
    await config.update({}, {"log.retention.ms": "5"})
    assert calls == [config.current]
    assert "A bug" in caplog.text


async def test_invalid_configs_in_the_store_are_ignored_key_by_key() -> None:
    config = dynamic()
    stored = {
        "log.retention.ms": "5",
        "message.max.bytes": "many",
        "broker.id": "7",
        "ssl.keystore.type": "JKS",
        "listener.name.plaintext.ssl.keystore.type": "JKS",
        "listener.name.plaintext.max.connections": "5",
        "a.plugins.own": "x",
    }
    await config.update(stored, stored)
    kept = {"log.retention.ms", "a.plugins.own", "listener.name.plaintext.max.connections"}
    assert config.default.keys() == config.own.keys() == kept
    assert (config.current.values["log.retention.ms"], config.current.values["broker.id"]) == (5, -1)


async def test_a_key_that_no_file_can_set_has_the_value_for_the_broker_or_for_all_or_its_default() -> None:
    name = "leader.replication.throttled.rate"
    config = dynamic(leader_replication_throttled_rate="1")
    calls: list[int] = []

    async def changed(current: BrokerConfig) -> None:
        calls.append(config.never_static(name))

    config.subscribe([name], changed)
    assert config.never_static(name) == 2**63 - 1
    for default, own in (({name: "5"}, {}), ({name: "5"}, {name: "6"}), ({}, {name: "6"}), ({}, {})):
        await config.update(default, own)
    # The subscriber is not called twice for one value.
    assert calls == [5, 6, 2**63 - 1]


async def test_contradicting_values_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    config = dynamic(log_retention_ms="9")
    await config.update({}, {"log.retention.ms": "0"})
    assert (config.current, config.own) == (config.static, {})
    assert "log.retention.ms must be unlimited" in caplog.text


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"broker.id": "1"}, "Cannot update these configs dynamically: [broker.id]"),
        ({"log.retention.hours": "1"}, "Cannot update these configs dynamically: [log.retention.hours]"),
        ({"zookeeper.connect": "a"}, "Cannot update these configs dynamically: [zookeeper.connect]"),
        (
            {"num.partitions": "1", "broker.rack": "r", "log.dirs": "x"},
            "Cannot update these configs dynamically: [broker.rack, log.dirs, num.partitions]",
        ),
        (
            {"ssl.keystore.location": "x"},
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "[ssl.keystore.location]",
        ),
        ({"log.segment.bytes": "x"}, "Invalid value x for configuration log.segment.bytes: Not a number of type INT"),
        (
            {"leader.replication.throttled.rate": "-1"},
            "Invalid value -1 for configuration leader.replication.throttled.rate: Value must be at least 0",
        ),
        (
            {"log.cleaner.dedupe.buffer.size": "1048576"},
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (
            {"log.cleaner.threads": "3"},
            REFUSED_BY_A_PART.format("Log cleaner threads cannot be increased to more than double the current value 1"),
        ),
        ({"log.cleaner.threads": "0"}, REFUSED_BY_A_PART.format("Log cleaner threads should be at least 1")),
        (
            {"background.threads": "4"},
            REFUSED_BY_A_PART.format(
                "Dynamic thread count update validation failed for background.threads=4, "
                "value should be at least half the current value 10"
            ),
        ),
        (
            {"log.local.retention.ms": "5000000000"},
            REFUSED_BY_A_PART.format(
                "Invalid value 5000000000 for configuration log.local.retention.ms: "
                "Value must not be more than log.retention.ms property value: 604800000"
            ),
        ),
        (
            {"log.retention.bytes": "7", "log.local.retention.bytes": "-1"},
            REFUSED_BY_A_PART.format(
                "Invalid value -1 for configuration log.local.retention.bytes: "
                "Value must not be -1 as log.retention.bytes value is set as 7."
            ),
        ),
    ],
)
def test_an_invalid_change_is_refused_in_kafkas_words(wanted: dict[str, str], text: str) -> None:
    assert fault(dynamic(), wanted) == text


def test_a_key_that_is_unsafe_to_ignore_is_refused_for_a_listener_too() -> None:
    assert "Ottla has no TLS" in fault(dynamic(), {"listener.name.plaintext.ssl.keystore.location": "x"})


def test_keys_of_a_listener_are_set_for_one_broker_except_its_limits() -> None:
    config = dynamic()
    limits = {"listener.name.plaintext.max.connections": "5", "listener.name.plaintext.num.network.threads": "5"}
    config.check(limits, per_broker=False)
    other = {"listener.name.plaintext.custom": "5"}
    config.check(other, per_broker=True)
    text = "Cannot update these configs at default cluster level, broker id must be specified: "
    assert fault(config, other, per_broker=False) == text + "[listener.name.plaintext.custom]"


def test_an_unknown_key_may_be_set() -> None:
    dynamic().check({"a.plugins.own": "x"}, per_broker=False)


async def test_the_number_of_threads_may_double_repeatedly() -> None:
    config = dynamic()
    for wanted in ("16", "32"):
        config.check({"num.io.threads": wanted}, per_broker=True)
        await config.update({}, {"num.io.threads": wanted})
    assert "double the current value 32" in fault(config, {"num.io.threads": "65"})


def test_synonyms_are_named_in_the_order_in_which_they_count() -> None:
    assert synonyms_of("log.retention.hours") == ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert synonyms_of("log.flush.interval.ms") == ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
    assert synonyms_of("log.flush.scheduler.interval.ms") == ("log.flush.scheduler.interval.ms",)
    assert synonyms_of("listener.name.x.num.network.threads") == (
        "listener.name.x.num.network.threads",
        "num.network.threads",
    )
    key = key_of("listener.name.x.num.network.threads")
    assert key is not None
    assert key.name == "num.network.threads"
    assert key_of("a.plugins.own") is None
