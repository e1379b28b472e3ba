"""No API handles denied entries, and each returns Kafka's error for them. All else is as without an authorizer.

Every row of the table has its case here: a row without one fails.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.broker.net.session import RequestContext
from ottla.broker.node import Node
from ottla.broker.requests.authorization import GUARDS, WITHOUT_GUARD
from ottla.broker.requests.authorizer import EVERYBODY, Operation, ResourceType
from ottla.broker.requests.dispatch import build_apis
from ottla.broker.requests.table import TABLE, ErrorResponse, Handler, Row
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import describe_topic_partitions
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.create_topics import CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersResponse
from ottla.wire.uuids import uuid_text
from tests.broker.requests.authorization_cases import (
    CASES,
    CLUSTER_FAILED,
    GROUP,
    NONE,
    TOPIC,
    TOPIC_FAILED,
    TRANSACTION,
    TRANSACTION_FAILED,
    Denied,
    added,
    added_offsets,
    commit_in_transaction,
    fetching_all,
    marker,
    new_topics,
    on_cluster,
    producing,
)
from tests.broker.support.client import Client, client
from tests.broker.test_node import config, create, fetching, produce, values


class Rules:
    """Denies the operations in `denied`, for every client."""

    def __init__(self) -> None:
        self.denied: set[Denied] = set()
        self.denies_any = False

    def authorize(self, context: RequestContext, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return (operation, resource_type, name) not in self.denied

    def authorize_any(self, context: RequestContext, operation: Operation, resource_type: ResourceType) -> bool:
        return not self.denies_any


@asynccontextmanager
async def guarded(folder: Path) -> AsyncIterator[tuple[Client, Rules]]:
    """A broker with the topics open and secret, and rules that deny nothing yet."""
    rules = Rules()
    node = Node(config(folder), authorizer=rules)
    places: list[str] = []
    is_ready = trio.Event()

    def ready(bootstrap: str) -> None:
        places.append(bootstrap)
        is_ready.set()

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.run, ready)
            await is_ready.wait()
            async with client(places[0]) as one:
                for topic in ("open", "secret"):
                    await create(one, topic)
                yield one, rules
            node.stop()


ENTRIES = (
    *("responses", "topics", "results", "coordinators", "groups"),
    *("results_by_topic_v3_and_below", "results_by_transaction", "transaction_states"),
)
NAMES = ("name", "topic_name", "topic", "key", "resource_name", "group_id", "transactional_id")
PARTITIONS = ("partition_responses", "partitions", "results_by_partition", "topic_results")


def answers(response: Any) -> dict[str, int]:
    """The errors of a response by entry; "" for the whole."""
    if isinstance(response, WriteTxnMarkersResponse):
        return {_name(topic): _error(topic) for result in response.markers for topic in result.topics}
    entries = next((getattr(response, field) for field in ENTRIES if getattr(response, field, ())), ())
    if not entries or not any(hasattr(entries[0], name) for name in NAMES):
        return {"": response.error_code}
    return {_name(entry): _error(entry) for entry in entries}


def _name(entry: Any) -> str:
    return str(next(getattr(entry, name) for name in NAMES if hasattr(entry, name)))


def _error(entry: Any) -> int:
    for code in ("error_code", "partition_error_code"):
        if hasattr(entry, code):
            return int(getattr(entry, code))
    partitions: Sequence[Any] = next(getattr(entry, each) for each in PARTITIONS if hasattr(entry, each))
    return _error(partitions[0])


def test_every_row_of_the_table_has_a_case_and_a_guard_or_is_named_without_one() -> None:
    keys = {row.key for row in TABLE}
    assert set(CASES) == keys
    assert set(GUARDS) | WITHOUT_GUARD == keys
    assert not set(GUARDS) & WITHOUT_GUARD


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.key.name)
async def test_denied_entries_get_an_error_and_the_others_are_handled(row: Row, tmp_path: Path) -> None:
    case = CASES[row.key]
    async with guarded(tmp_path) as (one, rules):
        rules.denied = case.denied
        assert answers(await one.ask(case.request, case.version)) == case.answers


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.key.name)
async def test_an_authorizer_that_denies_nothing_gives_no_denial(row: Row, tmp_path: Path) -> None:
    case = CASES[row.key]
    denials = {TOPIC_FAILED, CLUSTER_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED, TRANSACTION_FAILED}
    async with guarded(tmp_path) as (one, _):
        found = answers(await one.ask(case.request, case.version))
        assert set(found) == set(case.answers)
        assert not denials & set(found.values())


def test_without_an_authorizer_handlers_have_no_guard() -> None:
    def handler(request: object, context: object) -> None: ...

    def error_response(request: object, version: int, code: ErrorCode) -> None: ...

    handlers: dict[ApiKey, tuple[Handler, ErrorResponse | None]] = {
        row.key: (handler, error_response) for row in TABLE if row.key != ApiKey.API_VERSIONS
    }
    apis = build_apis(handlers, EVERYBODY).apis
    assert all(api.handler is handler for api in apis if api.row.key != ApiKey.API_VERSIONS)


async def test_denied_records_are_not_appended_and_with_acks_0_the_connection_closes(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (one, rules):
        rules.denied = {(Operation.WRITE, TOPIC, "secret")}
        await one.ask(producing("secret", "open"), 9)
        rules.denied = set()
        assert await produce(one, "secret", b"first") == 0
        assert await produce(one, "open", b"second") == 1
        rules.denied = {(Operation.WRITE, TOPIC, "secret")}
        with pytest.raises(AssertionError, match="closed the connection"):
            await one.ask(producing("secret", "open", acks=0), 9)


async def test_a_transactional_id_is_checked_before_records_are_appended(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (one, rules):
        rules.denied = {(Operation.WRITE, TRANSACTION, "tx")}
        response = await one.ask(producing("open", transactional_id="tx"), 9)
        assert answers(response) == {"open": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}


async def test_a_transactional_id_is_checked_before_anything_becomes_part_of_its_transaction(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (one, rules):
        rules.denied = {(Operation.WRITE, TRANSACTION, "tx")}
        assert answers(await one.ask(added("open", "secret"), 3)) == dict.fromkeys(
            ["open", "secret"], TRANSACTION_FAILED
        )
        assert answers(await one.ask(added_offsets("g"), 4)) == {"": TRANSACTION_FAILED}
        assert answers(await one.ask(commit_in_transaction("g", "open"), 4)) == {"open": TRANSACTION_FAILED}


async def test_offsets_in_a_transaction_need_the_group_too(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (one, rules):
        rules.denied = {(Operation.READ, GROUP, "g")}
        refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert answers(await one.ask(added_offsets("g"), 4)) == {"": refused}
        assert answers(await one.ask(commit_in_transaction("g", "open"), 4)) == {"open": refused}


@pytest.mark.parametrize("enough", [Operation.ALTER, Operation.CLUSTER_ACTION])
async def test_administrators_write_markers_and_so_do_brokers(tmp_path: Path, enough: Operation) -> None:
    async with guarded(tmp_path) as (one, rules):
        rules.denied = on_cluster(*({Operation.ALTER, Operation.CLUSTER_ACTION} - {enough}))
        assert answers(await one.ask(marker("open"), 1)) == {"open": NONE}


async def test_a_broker_that_verifies_needs_the_clusters_permission_alone(tmp_path: Path) -> None:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id="tx",
        producer_id=1,
        producer_epoch=0,
        verify_only=True,
        topics=[AddPartitionsToTxnTopic(name="open", partitions=[0])],
    )
    request = AddPartitionsToTxnRequest(transactions=[transaction])
    async with guarded(tmp_path) as (one, rules):
        rules.denied = {(Operation.WRITE, TRANSACTION, "tx"), (Operation.WRITE, TOPIC, "open")}
        assert answers(await one.ask(request, 4)) == {"tx": ErrorCode.NOT_COORDINATOR}
        rules.denied = on_cluster(Operation.CLUSTER_ACTION)
        assert answers(await one.ask(request, 4)) == {"": CLUSTER_FAILED}


async def test_an_idempotent_producer_needs_one_topic_that_it_may_write_to(tmp_path: Path) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    async with guarded(tmp_path) as (one, rules):
        rules.denied = on_cluster(Operation.IDEMPOTENT_WRITE)
        assert answers(await one.ask(request, 4)) == {"": NONE}
        rules.denies_any = True
        assert answers(await one.ask(request, 4)) == {"": CLUSTER_FAILED}


async def test_every_fetch_of_a_session_returns_a_denial_and_a_revoked_permission_ends_it(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (one, rules):
        rules.denied = {(Operation.READ, TOPIC, "secret")}
        await produce(one, "secret", b"x")
        first = await one.ask(fetching_all("secret", "open", session_epoch=0), 12)
        assert isinstance(first, FetchResponse)
        assert answers(first) == {"secret": TOPIC_FAILED, "open": NONE}
        again = {"session_id": first.session_id}
        assert answers(await one.ask(fetching_all(session_epoch=1, **again), 12)) == {"secret": TOPIC_FAILED}
        rules.denied = set()
        allowed = await one.ask(fetching_all(session_epoch=2, **again), 12)
        assert answers(allowed) == {"secret": NONE}
        assert values(allowed) == [b"x"]
        rules.denied = {(Operation.READ, TOPIC, "open")}
        await produce(one, "open", b"y")
        found = answers(await one.ask(fetching_all(session_epoch=3, **again), 12))
        assert found["open"] == TOPIC_FAILED


async def test_a_follower_needs_the_clusters_permission_and_no_topics(tmp_path: Path) -> None:
    request = fetching_all("open", replica_id=5)
    async with guarded(tmp_path) as (one, rules):
        rules.denied = {(Operation.READ, TOPIC, "open")}
        assert answers(await one.ask(request, 12)) == {"open": ErrorCode.NOT_LEADER_OR_FOLLOWER}
        rules.denied = on_cluster(Operation.CLUSTER_ACTION)
        assert answers(await one.ask(request, 12)) == {"open": TOPIC_FAILED}


async def test_a_waiting_fetch_is_not_completed_by_denied_records(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (one, rules), client(f"127.0.0.1:{one.stream.socket.getpeername()[1]}") as other:
        rules.denied = {(Operation.READ, TOPIC, "secret")}
        got: list[float] = []

        async def fetch() -> None:
            began = trio.current_time()
            await other.ask(fetching_all("secret", "open", max_wait_ms=500), 12)
            got.append(trio.current_time() - began)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch)
            await trio.sleep(0.1)
            await produce(one, "secret", b"x")
        assert got[0] >= 0.45


async def test_metadata_of_all_topics_leaves_out_denied_ones_and_gives_no_name_of_an_id(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (one, rules):
        everything = await one.ask(MetadataRequest(topics=None), 12)
        assert isinstance(everything, MetadataResponse)
        ids = {topic.name: topic.topic_id for topic in everything.topics}
        rules.denied = {(Operation.DESCRIBE, TOPIC, "secret")}
        assert answers(await one.ask(MetadataRequest(topics=None), 12)) == {"open": NONE}
        described = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=())
        assert answers(await one.ask(described, 0)) == {"open": NONE}
        by_id = await one.ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=ids["secret"], name=None)]), 12)
        assert isinstance(by_id, MetadataResponse)
        (topic,) = by_id.topics
        assert (topic.error_code, topic.name, topic.topic_id) == (TOPIC_FAILED, None, ids["secret"])


async def test_metadata_creates_a_topic_only_for_a_client_that_may_create_it(tmp_path: Path) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in ("mine", "yours")])
    async with guarded(tmp_path) as (one, rules):
        rules.denied = {(Operation.CREATE, TOPIC, "yours"), *on_cluster(Operation.CREATE)}
        assert answers(await one.ask(request, 9)) == {"mine": ErrorCode.LEADER_NOT_AVAILABLE, "yours": TOPIC_FAILED}
        with trio.fail_after(120):
            while answers(await one.ask(request, 9)) != {"mine": NONE, "yours": TOPIC_FAILED}:
                await trio.sleep(0.01)


async def test_responses_have_the_operations_that_the_client_may_perform(tmp_path: Path) -> None:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="open")],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    cluster = DescribeClusterRequest(include_cluster_authorized_operations=True)
    described = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=())

    async def told(one: Client) -> tuple[int, int, int, int]:
        metadata, brokers, topics = await one.ask(request, 10), await one.ask(cluster, 1), await one.ask(described, 0)
        assert isinstance(metadata, MetadataResponse)
        assert isinstance(brokers, DescribeClusterResponse)
        assert isinstance(topics, describe_topic_partitions.DescribeTopicPartitionsResponse)
        of_cluster = brokers.cluster_authorized_operations
        of_topics = metadata.topics[0].topic_authorized_operations, topics.topics[0].topic_authorized_operations
        return *of_topics, metadata.cluster_authorized_operations, of_cluster

    async with guarded(tmp_path) as (one, rules):
        assert await told(one) == (0xDF8, 0xDF8, 0x1FA0, 0x1FA0)
        rules.denied = {(Operation.WRITE, TOPIC, "open"), *on_cluster(Operation.ALTER)}
        assert await told(one) == (0xDE8, 0xDE8, 0x1F20, 0x1F20)
        rules.denied = on_cluster(Operation.DESCRIBE)
        assert await told(one) == (0xDF8, 0xDF8, 0, 0)


async def test_denied_topics_that_are_named_twice_are_refused_as_duplicates(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (one, rules):
        rules.denied = {(Operation.CREATE, TOPIC, "new"), *on_cluster(Operation.CREATE)}
        assert answers(await one.ask(new_topics("new", "new"), 7)) == {"new": ErrorCode.INVALID_REQUEST}


async def test_a_new_topic_is_described_only_to_a_client_that_may_describe_its_configs(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (one, rules):
        rules.denied = {(Operation.DESCRIBE_CONFIGS, TOPIC, "hidden")}
        response = await one.ask(new_topics("hidden", "shown"), 7)
        assert isinstance(response, CreateTopicsResponse)
        hidden, shown = response.topics
        assert (hidden.error_code, hidden.topic_config_error_code, hidden.num_partitions) == (NONE, TOPIC_FAILED, -1)
        assert (list(hidden.configs or ()), hidden.replication_factor) == ([], -1)
        assert (shown.topic_config_error_code, shown.num_partitions, bool(shown.configs)) == (NONE, 1, True)


async def test_deletion_by_id_returns_the_names_of_topics_that_the_client_may_describe(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (one, rules):
        everything = await one.ask(MetadataRequest(topics=None), 12)
        assert isinstance(everything, MetadataResponse)
        ids = [topic.topic_id for topic in everything.topics]
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=each) for each in ids], timeout_ms=1000
        )
        rules.denied = {(Operation.DELETE, TOPIC, "open"), (Operation.DESCRIBE, TOPIC, "secret")}
        response = await one.ask(request, 6)
        assert isinstance(response, DeleteTopicsResponse)
        found = {uuid_text(each.topic_id): (each.name, each.error_code) for each in response.responses}
        names = {topic.name: uuid_text(topic.topic_id) for topic in everything.topics}
        assert found == {names["open"]: ("open", TOPIC_FAILED), names["secret"]: (None, TOPIC_FAILED)}
        rules.denied = set()
        assert answers(await one.ask(MetadataRequest(topics=None), 12)) == {"open": NONE, "secret": NONE}


@pytest.mark.parametrize(
    ("key_type", "denied", "error"),
    [
        (0, (Operation.DESCRIBE, GROUP, "key"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (1, (Operation.DESCRIBE, TRANSACTION, "key"), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
async def test_old_clients_ask_for_one_coordinator(
    key_type: int, denied: Denied, error: ErrorCode, tmp_path: Path
) -> None:
    async with guarded(tmp_path) as (one, rules):
        rules.denied = {denied}
        response = await one.ask(FindCoordinatorRequest(key="key", key_type=key_type), 3)
        assert isinstance(response, FindCoordinatorResponse)
        assert (response.error_code, response.node_id) == (error, -1)
        assert str(response.error_message).endswith("authorization failed.")


async def test_a_denial_is_logged_only_for_resources_that_the_client_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with guarded(tmp_path) as (one, rules):
        rules.denied = {(Operation.DESCRIBE, TOPIC, "secret"), (Operation.READ, TOPIC, "secret")}
        with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
            caplog.clear()
            await one.ask(MetadataRequest(topics=None), 12)
            await one.ask(fetching("secret"), 12)
    assert [each.getMessage() for each in caplog.records if each.name == "kafka.authorizer.logger"] == [
        "Principal User:ANONYMOUS from 127.0.0.1 is denied READ on TOPIC secret"
    ]
