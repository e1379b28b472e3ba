import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.handlers import incremental_alter_configs
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.zk.znodes import CONFIG_CHANGES, broker_config_path, decode_config, topic_config_path
from tests.broker.controller.cluster import LONG_MS, Broker, Cluster, assigned_topic, running, settle, topic, wait_for

LATEST = 1
TOPIC, BROKER, LOGGERS, METRICS = 2, 4, 8, 16
SET, DELETE, APPEND, SUBTRACT = range(4)
Wanted = tuple[str, int, str | None]


def resource(name: str, *configs: Wanted, kind: int = TOPIC) -> AlterConfigsResource:
    wanted = [AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in configs]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=wanted)


async def alter(
    broker: Broker, *resources: AlterConfigsResource, version: int = LATEST, validate_only: bool = False
) -> list[tuple[ErrorCode, str | None]]:
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    request = IncrementalAlterConfigsRequest.decode(request.encode(version), version)
    context = RequestContext(ApiKey.INCREMENTAL_ALTER_CONFIGS, version)
    reply = incremental_alter_configs.handle(request, context, config_admin=broker.config_admin)
    response: IncrementalAlterConfigsResponse = await wait_for(reply)
    response = IncrementalAlterConfigsResponse.decode(response.encode(version), version)
    assert [each.resource_name for each in response.responses] == [each.resource_name for each in resources]
    return [(ErrorCode(each.error_code), each.error_message) for each in response.responses]


async def create(broker: Broker, name: str, **configs: str) -> None:
    await wait_for(broker.controller.create_topics([topic(name, 1, 1, **configs)], LONG_MS, validate_only=False))


async def stored(cluster: Cluster, name: str) -> dict[str, str]:
    data = await cluster.data(topic_config_path(name))
    assert data is not None
    return decode_config(data)


@pytest.mark.parametrize("version", range(LATEST + 1))
async def test_a_topics_configs_are_kept_and_in_effect_when_the_reply_comes(tmp_path: Path, version: int) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t", segment_ms="9")
        changes: list[Wanted] = [
            ("max.message.bytes", SET, "5"),
            ("flush.messages", SET, "1"),
            ("min.insync.replicas", SET, "2"),
            ("segment.ms", DELETE, None),
        ]
        assert await alter(broker, resource("t", *changes), version=version) == [(ErrorCode.NONE, None)]
        kept = {"max.message.bytes": "5", "flush.messages": "1", "min.insync.replicas": "2"}
        assert await stored(cluster, "t") == kept
        assert broker.topic_configs.get("t") == kept
        partition = broker.replicas.partition("t", 0)
        assert partition.rules.max_message_bytes == 5
        assert partition.flushes_by_count
        assert partition.log.config.min_insync_replicas == 2
        assert partition.log.config.segment_ms == 604_800_000


async def test_all_brokers_are_notified_as_kafka_notifies_them(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        request = [assigned_topic("t", (0, 1))]
        await wait_for(cluster.brokers[0].controller.create_topics(request, LONG_MS, validate_only=False))
        assert await alter(cluster.brokers[1], resource("t", ("retention.ms", SET, "5"))) == [(ErrorCode.NONE, None)]
        await settle()
        for broker in cluster.brokers.values():
            assert broker.replicas.partition("t", 0).log.config.values["retention.ms"] == 5
        data = await cluster.data(f"{CONFIG_CHANGES}/config_change_0000000000")
        assert data == b'{"version":2,"entity_path":"topics/t"}'


async def test_lists_grow_and_shrink(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        for operation, value, left in (
            (APPEND, "compact", "delete,compact"),
            (APPEND, "delete", "delete,compact"),
            (SUBTRACT, "delete", "compact"),
        ):
            assert await alter(broker, resource("t", ("cleanup.policy", operation, value))) == [(ErrorCode.NONE, None)]
            assert (await stored(cluster, "t"))["cleanup.policy"] == left
        assert broker.replicas.partition("t", 0).rules.compacted


async def test_each_resource_that_cannot_be_changed_has_its_error_and_stays_the_same(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        for name in "abcdefg":
            await create(broker, name)
        answers = await alter(
            broker,
            resource("a", ("bogus.key", SET, "1")),
            resource("b", ("retention.ms", SET, "x")),
            resource("c", ("retention.ms", APPEND, "1")),
            resource("d", ("retention.ms", SET, None)),
            resource("e", ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
            resource("f", ("retention.ms", 9, "1")),
            resource("g"),
            resource("g"),
            resource("gone", ("retention.ms", SET, "1")),
            resource("", ("retention.ms", SET, "1")),
            resource("0", ("log.retention.hours", SET, "1"), kind=BROKER),
            resource("7", ("log.retention.ms", SET, "1"), kind=BROKER),
            resource("x", kind=BROKER),
            resource("0", kind=METRICS),
            resource("0", kind=99),
        )
        bad, wrong = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
        assert answers == [
            (wrong, "Unknown topic config name: bogus.key"),
            (
                wrong,
                "Invalid value x for configuration retention.ms: Not a number of type LONG",
            ),
            (wrong, "Config value append is not allowed for config key: retention.ms"),
            (bad, "Null value not supported for : retention.ms"),
            (bad, "Error due to duplicate config keys"),
            (bad, "Unknown operations type 9"),
            (bad, "Each resource must appear at most once."),
            (bad, "Each resource must appear at most once."),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'gone' does not exist."),
            (bad, "Default topic resources are not allowed."),
            (bad, "Cannot update these configs dynamically: [log.retention.hours]"),
            (bad, "Unexpected broker id, expected 0, but received 7"),
            (bad, "Node id must be an integer, but it is: x"),
            (bad, "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"),
            (bad, "Unknown resource type 99"),
        ]
        for name in "abcdefg":
            assert await stored(cluster, name) == {}
        assert await cluster.data(f"{CONFIG_CHANGES}/config_change_0000000000") is None


async def test_validate_only_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        wanted = resource("t", ("retention.ms", SET, "5"))
        assert await alter(broker, wanted, validate_only=True) == [(ErrorCode.NONE, None)]
        assert await stored(cluster, "t") == {}


async def test_a_brokers_own_configs_and_those_of_all_brokers_are_kept_announced_and_in_effect(tmp_path: Path) -> None:
    async with running(tmp_path, 0, log_segment_bytes="5000") as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        await create(broker, "own", max_message_bytes="7")
        changes: list[Wanted] = [("message.max.bytes", SET, "500"), ("log.retention.ms", SET, "600")]
        answers = await alter(
            broker,
            resource("", *changes, kind=BROKER),
            resource("0", ("message.max.bytes", SET, "400"), kind=BROKER),
        )
        assert answers == [(ErrorCode.NONE, None)] * 2
        assert await cluster.data(broker_config_path("0")) == b'{"version":1,"config":{"message.max.bytes":"400"}}'
        data = await cluster.data(broker_config_path("<default>"))
        assert data is not None
        assert decode_config(data) == {"message.max.bytes": "500", "log.retention.ms": "600"}
        announced = [await cluster.data(f"{CONFIG_CHANGES}/config_change_{number:010}") for number in range(2)]
        assert announced == [
            b'{"version":2,"entity_path":"brokers/<default>"}',
            b'{"version":2,"entity_path":"brokers/0"}',
        ]
        partition = broker.replicas.partition("t", 0)
        assert partition.rules.max_message_bytes == 400
        assert partition.log.config.values["retention.ms"] == 600
        assert broker.replicas.partition("own", 0).rules.max_message_bytes == 7
        await create(broker, "later")
        assert broker.replicas.partition("later", 0).rules.max_message_bytes == 400
        deletion = resource("0", ("message.max.bytes", DELETE, None), kind=BROKER)
        assert await alter(broker, deletion) == [(ErrorCode.NONE, None)]
        assert partition.rules.max_message_bytes == 500


async def test_all_brokers_use_configs_of_all_brokers_and_one_broker_its_own(tmp_path: Path) -> None:
    async with running(tmp_path, 0, 1) as cluster:
        first, second = cluster.brokers[0], cluster.brokers[1]
        await alter(first, resource("", ("min.insync.replicas", SET, "2"), kind=BROKER))
        await alter(second, resource("1", ("min.insync.replicas", SET, "3"), kind=BROKER))
        await settle()
        found = [each.dynamic.current.values["min.insync.replicas"] for each in (first, second)]
        assert found == [2, 3]


async def test_lists_of_a_broker_grow_and_shrink(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        for operation, value, left in (
            (APPEND, "compact", ("delete", "compact")),
            (SUBTRACT, "delete", ("compact",)),
        ):
            wanted = resource("0", ("log.cleanup.policy", operation, value), kind=BROKER)
            assert await alter(broker, wanted) == [(ErrorCode.NONE, None)]
            assert broker.dynamic.current.values["log.cleanup.policy"] == left


async def test_a_broker_keeps_configs_that_cannot_be_changed_or_are_only_validated(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        valid = resource("0", ("log.retention.ms", SET, "5"), kind=BROKER)
        assert await alter(broker, valid, validate_only=True) == [(ErrorCode.NONE, None)]
        for wanted, answer in (
            (
                ("log.segment.bytes", SET, "x"),
                "Invalid value x for configuration log.segment.bytes: Not a number of type INT",
            ),
            (("broker.rack", SET, "r"), "Cannot update these configs dynamically: [broker.rack]"),
        ):
            assert await alter(broker, resource("0", wanted, kind=BROKER)) == [(ErrorCode.INVALID_REQUEST, answer)]
        assert await cluster.data(broker_config_path("0")) is None
        assert broker.dynamic.current is broker.config


async def test_an_operation_that_does_not_exist_is_wrong_first_for_a_broker_and_in_its_turn_for_a_topic(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        await create(broker, "t")
        changes: list[Wanted] = [("no.such.config", APPEND, "x"), ("retention.ms", 9, "1")]
        assert await alter(broker, resource("0", *changes, kind=BROKER), resource("t", *changes)) == [
            (ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
            (ErrorCode.INVALID_CONFIG, "Unknown config name: no.such.config"),
        ]


async def test_an_operation_that_a_config_does_not_have_is_wrong_before_a_topic_that_does_not_exist(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        assert await alter(broker, resource("gone", ("retention.ms", APPEND, "1"))) == [
            (ErrorCode.INVALID_CONFIG, "Config value append is not allowed for config key: retention.ms")
        ]


@pytest.fixture
def noisy() -> Iterator[logging.Logger]:
    """A logger of Kafka's, whose level is restored after the test."""
    logger = logging.getLogger("kafka.test.noisy")
    yield logger
    logger.setLevel(logging.NOTSET)


async def test_the_level_of_a_logger_is_set_and_unset(tmp_path: Path, noisy: logging.Logger) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        for level, number in (("TRACE", 5), ("WARN", logging.WARNING), ("FATAL", logging.CRITICAL)):
            assert await alter(broker, resource("0", (noisy.name, SET, level), kind=LOGGERS)) == [
                (ErrorCode.NONE, None)
            ]
            assert noisy.level == number
        validated = resource("0", (noisy.name, SET, "DEBUG"), kind=LOGGERS)
        assert await alter(broker, validated, validate_only=True) == [(ErrorCode.NONE, None)]
        assert noisy.level == logging.CRITICAL
        assert await alter(broker, resource("0", (noisy.name, DELETE, None), kind=LOGGERS)) == [(ErrorCode.NONE, None)]
        assert noisy.level == logging.NOTSET


async def test_a_level_that_no_logger_can_have_is_refused_and_leaves_the_others_as_they_are(
    tmp_path: Path, noisy: logging.Logger
) -> None:
    async with running(tmp_path, 0) as cluster:
        bad, wrong = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
        unsupported = f"Cannot set the log level of {noisy.name} to debug as it is not a supported log level."
        not_allowed = "operation is not allowed for the BROKER_LOGGER resource"
        levels = "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
        for name, changes, answer in (
            ("0", [("no.logger", SET, "INFO")], (wrong, "Logger no.logger does not exist!")),
            ("0", [(noisy.name, SET, "debug")], (wrong, f"{unsupported} {levels}")),
            ("0", [("root", DELETE, None)], (bad, "Removing the log level of the root logger is not allowed")),
            ("0", [(noisy.name, APPEND, "INFO")], (bad, f"APPEND {not_allowed}")),
            ("1", [(noisy.name, SET, "INFO")], (bad, "Unexpected node id. Expected 0, but received 1")),
            ("", [(noisy.name, SET, "INFO")], (bad, "Node id must be an integer, but it is: ")),
            ("0", [(noisy.name, SET, "INFO"), ("no.logger", SET, "INFO")], (wrong, "Logger no.logger does not exist!")),
            (
                "0",
                [("no.logger", SET, "INFO"), (noisy.name, APPEND, "INFO")],
                (wrong, "Logger no.logger does not exist!"),
            ),
            ("0", [(noisy.name, APPEND, "INFO"), ("no.logger", SET, "INFO")], (bad, f"APPEND {not_allowed}")),
        ):
            wanted = resource(name, *changes, kind=LOGGERS)
            assert await alter(cluster.brokers[0], wanted) == [answer]
        assert noisy.level == logging.NOTSET


async def test_all_logs_take_new_defaults_however_many_there_are(tmp_path: Path) -> None:
    async with running(tmp_path, 0) as cluster:
        broker = cluster.brokers[0]
        wanted = [topic("many", 120), topic("own", 2, segment_bytes="900"), topic("other")]
        await wait_for(broker.controller.create_topics(wanted, LONG_MS, validate_only=False))
        changes: list[Wanted] = [("log.segment.bytes", SET, "500"), ("producer.id.expiration.ms", SET, "77")]
        assert await alter(broker, resource("", *changes, kind=BROKER)) == [(ErrorCode.NONE, None)]
        logs = {tp: each.log for tp, each in broker.replicas.partitions.items()}
        assert {log.config.segment_bytes for tp, log in logs.items() if tp[0] != "own"} == {500}
        assert {log.config.segment_bytes for tp, log in logs.items() if tp[0] == "own"} == {900}
        assert {log.producers.expiration_ms for log in logs.values()} == {77}
        await create(broker, "later")
        assert broker.replicas.partition("later", 0).log.producers.expiration_ms == 77
