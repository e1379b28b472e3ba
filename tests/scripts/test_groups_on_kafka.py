"""`ottla groups` with the consumer protocol of Apache Kafka 4.3, which Ottla's broker lacks, and with transactions."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
import trio

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, running
from compat_tests.support.clients import PATIENCE_S, create_topic
from compat_tests.tools.group_scenarios import SETTINGS, Members
from ottla.client.admin.groups.committed_offsets import Committed, Offsets, commit_offsets
from ottla.client.cluster import open_client
from ottla.client.config import ClientConfig
from ottla.wire.types import TopicPartition
from tests.scripts.running import Ended, environment, ottla

pytestmark = pytest.mark.slow
LONG_AGO = 1_700_000_000_000
NEW_PROTOCOL = {"group_protocol": "consumer", "partition_assignment_strategy": None}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with running(ApacheKafka, SETTINGS) as broker:
        create_topic(broker.bootstrap, "orders", 2)
        create_topic(broker.bootstrap, "payments", 1)
        yield broker


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


def run(kafka: Broker, env: dict[str, str], *arguments: str) -> Ended:
    return ottla("groups", *arguments, "-b", kafka.bootstrap, "-o", "json", env=env)


def commit(kafka: Broker, group: str, offsets: Offsets) -> None:
    async def main() -> None:
        async with open_client(ClientConfig({"bootstrap.servers": kafka.bootstrap})) as client:
            assert set((await commit_offsets(client, group, offsets)).values()) == {None}

    trio.run(main)


def test_a_group_of_the_consumer_protocol_is_described_reset_and_restored(kafka: Broker, env: dict[str, str]) -> None:
    commit(kafka, "new", {TopicPartition("orders", 0): Committed(0, -1, "mine")})
    with Members(kafka.bootstrap) as members:
        members.add("new", "reader", ["orders"], **NEW_PROTOCOL)
        state = run(kafka, env, "describe", "new", "--state").items[0]
        while state["state"] != "Stable":
            state = run(kafka, env, "describe", "new", "--state").items[0]
        assert (state["type"], state["protocol"], state["members"]) == ("consumer", "consumer", 1)
        assert state["epoch"] == state["assignment_epoch"]
        (member,) = run(kafka, env, "describe", "new", "--members").items
        assert member["assignment"] == member["target_assignment"] == ["orders:0", "orders:1"]
        refused = run(kafka, env, "reset", "new", "--to-latest", "--yes")
        assert (refused.code, refused.items[0]["error"]) == (1, "NON_EMPTY_GROUP")
    assert run(kafka, env, "list", "new").items[0]["type"] == "consumer"
    ended = run(kafka, env, "reset", "new", "--topic", "orders:1", "--to-earliest", "--yes")
    assert ended.code == 0, ended
    assert run(kafka, env, "undo", ended.items[0]["undo"], "--yes").code == 0
    (row,) = run(kafka, env, "describe", "new").items
    assert (row["partition"], row["committed_offset"], row["metadata"]) == (0, 0, "mine")


@pytest.fixture(params=["ottla", "kafka"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Yield either broker, with a topic `payments`."""
    if request.param == "kafka":
        yield request.getfixturevalue("kafka")
        return
    with running(Ottla) as ottla_broker:
        create_topic(ottla_broker.bootstrap, "payments", 1, {"retention.ms": "-1"})
        yield ottla_broker


def test_markers_of_transactions_are_skipped_for_the_lag_in_seconds(broker: Broker, env: dict[str, str]) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "payer", "log_level": 0}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(PATIENCE_S)
    for number in range(2):
        producer.begin_transaction()
        producer.produce("payments", b"v", timestamp=LONG_AGO + number * 1_000_000)
        producer.commit_transaction(PATIENCE_S)
    # A new producer of the id comes when the last marker is written.
    confluent_kafka.Producer(settings).init_transactions(PATIENCE_S)
    # Offsets: a record, a marker, a record, a marker.
    partition = TopicPartition("payments", 0)
    commit(broker, "behind", {partition: Committed(1)})
    commit(broker, "done", {partition: Committed(3)})
    commit(broker, "at-the-start", {partition: Committed(0)})
    items = {item["group"]: item for item in run(broker, env, "lag", "*").items}
    assert (items["done"]["lag"], items["done"]["lag_seconds"]) == (1, 0.0)
    assert items["behind"]["lag"] == 3
    # The marker at offset 1 is new, and the record after it is a million milliseconds newer than the first one.
    assert round(items["at-the-start"]["lag_seconds"] - items["behind"]["lag_seconds"]) == 1000
