"""Clients that fetch many partitions and do not read: the descriptors that their responses hold."""

import os
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import cast

import pytest

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, running
from ottla.wire.codec import encode_request
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records.batch import NewRecord, build_batch
from tests.support.raw import RawClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TOPIC = "wide"
RECORD_BYTES = 20_000
SOCKETS = 16
FEW = 800
# Many times the partitions of one response, and more than the pool of log files holds.
MANY = 6_000
CREATED_AT_ONCE = 2_000
PRODUCED_AT_ONCE = 250

# A new topic has no leaders yet.
NOT_YET = {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - a descriptor more would be one of ours


def fill(bootstrap: str, partitions: int) -> list[str]:
    """Append one record to each partition; return the topics, of a few thousand partitions each."""
    names = []
    record = build_batch([NewRecord(b"x" * RECORD_BYTES, timestamp=0)])
    with RawClient(bootstrap, 300) as client:
        for first in range(0, partitions, CREATED_AT_ONCE):
            count = min(CREATED_AT_ONCE, partitions - first)
            names.append(f"{TOPIC}-{first}")
            topic = CreatableTopic(
                name=names[-1], num_partitions=count, replication_factor=1, assignments=(), configs=()
            )
            created = cast(CreateTopicsResponse, client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=300_000), 5))
            assert created.topics[0].error_code == ErrorCode.NONE
            for start in range(0, count, PRODUCED_AT_ONCE):
                indexes = range(start, min(start + PRODUCED_AT_ONCE, count))
                data = [PartitionProduceData(index=index, records=record) for index in indexes]
                produce(client, names[-1], data)
    return names


def produce(client: RawClient, topic: str, data: Sequence[PartitionProduceData]) -> None:
    """Produce, and retry partitions that the broker does not lead yet."""
    left = list(data)
    while left:
        request = ProduceRequest(
            transactional_id=None,
            acks=1,
            timeout_ms=60_000,
            topic_data=[TopicProduceData(name=topic, partition_data=left)],
        )
        response = cast(ProduceResponse, client.ask(request, 8))
        codes = {each.index: each.error_code for each in response.responses[0].partition_responses}
        left = [each for each in left if codes[each.index] != ErrorCode.NONE]
        assert NOT_YET.issuperset(codes.values())


def fetch(topics: Sequence[str], partitions: int, random: Random) -> bytes:
    """Return a Fetch of all partitions in random order, because the broker serves them in the order of the request."""
    asked = []
    for name in random.sample(topics, len(topics)):
        count = min(CREATED_AT_ONCE, partitions - CREATED_AT_ONCE * topics.index(name))
        indexes = random.sample(range(count), count)
        data = [
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=-1)
            for index in indexes
        ]
        asked.append(FetchTopic(topic=name, partitions=data))
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 30,
        session_id=0,
        session_epoch=-1,
        topics=asked,
        forgotten_topics_data=(),
    )
    return encode_request(12, 1, "does not read", request)


def unread(broker: Broker, partitions: int, seed: int) -> tuple[int, int]:
    """Return the descriptors of the broker before, and at most while each socket waits with an unread response."""
    topics = fill(broker.bootstrap, partitions)
    random = Random(seed)
    before = most = descriptors(broker.process.pid)
    with ExitStack() as stack:
        for _ in range(SOCKETS):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            host, port = broker.bootstrap.rsplit(":", 1)
            sock.settimeout(300)
            sock.connect((host, int(port)))
            sock.sendall(fetch(topics, partitions, random))
            # The response begins to arrive, so the broker has built all of it.
            assert select.select([sock], [], [], 300)[0]
            most = max(most, descriptors(broker.process.pid))
            with RawClient(broker.bootstrap, 60) as other:
                other.ask(ApiVersionsRequest(), 0)
    return before, most


class FewDescriptors(Ottla):
    """Ottla with a low limit of descriptors."""

    def command(self) -> list[str]:
        return ["sh", "-c", f'ulimit -n {FEW} && exec "$@"', "sh", *super().command()]


def test_unread_responses_hold_no_descriptors(seed: int, tell: Callable[[str], None], tmp_path: Path) -> None:
    with running(FewDescriptors, parent=tmp_path) as broker:
        before, most = unread(broker, FEW, seed)
    tell(f"{SOCKETS} unread Fetches of {FEW} partitions, at most {FEW} descriptors: {before}, then {most}")
    assert most <= before + 2 * SOCKETS


@pytest.mark.trials(few=0, soak=1)
def test_unread_responses_hold_no_more_descriptors_than_kafkas(
    trials: int, seed: int, tell: Callable[[str], None], tmp_path: Path
) -> None:
    if not trials:
        pytest.skip("takes a minute: for a soak")
    found = {}
    for kind in (Ottla, ApacheKafka):
        with running(kind, parent=tmp_path) as broker:
            found[kind] = unread(broker, MANY, seed)
        tell(f"{SOCKETS} unread Fetches of {MANY} partitions: {found[kind]} descriptors of {kind.name}")
    assert found[Ottla][1] <= found[ApacheKafka][1]
