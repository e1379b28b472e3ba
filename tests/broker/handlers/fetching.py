"""Helpers of the tests of Fetch."""

from collections.abc import Sequence

from ottla.broker.handlers import fetch
from ottla.broker.loop.deferred import Deferred
from ottla.broker.replicas.partition import Partition
from ottla.broker.requests.authorizer import Access
from ottla.log.segments.open_files import FileRegion
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import encode_response
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from ottla.wire.records.batch import iter_batches, iter_records, validate_produced
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch, context, topic_id

NAMES = 12
IDS = 17
Session = tuple[int, int]
NO_SESSION: Session = (0, -1)
NEW_SESSION: Session = (0, 0)
Answer = FetchResponse | Deferred[FetchResponse]


def position(
    index: int, offset: int, *, max_bytes: int = 1 << 20, epoch: int = -1, last_epoch: int = -1
) -> FetchPartition:
    return FetchPartition(
        partition=index,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_epoch,
    )


def topic(name: str, *positions: FetchPartition, by_id: bytes | None = None) -> FetchTopic:
    return FetchTopic(topic=name, topic_id=topic_id(name) if by_id is None else by_id, partitions=positions)


def request(
    *topics: FetchTopic,
    session: Session = NO_SESSION,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    max_wait_ms: int = 500,
    isolation_level: int = 0,
    replica_id: int = -1,
    rack_id: str = "",
    forget: Sequence[tuple[str, int]] = (),
) -> FetchRequest:
    return FetchRequest(
        replica_id=replica_id,
        replica_state=ReplicaState(replica_id=replica_id),
        rack_id=rack_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
        forgotten_topics_data=[
            ForgottenTopic(topic=name, topic_id=topic_id(name), partitions=[index]) for name, index in forget
        ],
    )


def send(house: House, asked: FetchRequest, version: int = NAMES, access: Access | None = None) -> Answer:
    return fetch.handle(
        asked,
        context(ApiKey.FETCH, version),
        replicas=house.replicas,
        sessions=house.sessions,
        metadata=house.metadata,
        clock=house.clock,
        start_soon=house.start_soon,
        fetch_max_bytes=55 << 20,
        access=access,
        rack_aware=bool(asked.rack_id),
    )


def now(house: House, asked: FetchRequest, version: int = NAMES) -> FetchResponse:
    answer = send(house, asked, version)
    assert isinstance(answer, FetchResponse)
    # Every response can be encoded.
    encode_response(1, answer, version)
    return answer


def waits(house: House, asked: FetchRequest, version: int = NAMES) -> Deferred[FetchResponse]:
    answer = send(house, asked, version)
    assert isinstance(answer, Deferred)
    assert not answer.applied
    assert not answer.done
    return answer


def told(response: FetchResponse) -> list[PartitionData]:
    return [data for found in response.responses for data in found.partitions]


def codes(response: FetchResponse) -> list[tuple[int, int]]:
    return [(data.partition_index, data.error_code) for data in told(response)]


def values(data: PartitionData) -> list[bytes | None]:
    records = data.records.read() if isinstance(data.records, FileRegion) else data.records
    assert isinstance(records, bytes | bytearray)
    return [record.value for _, found in iter_batches(memoryview(records)) for record in iter_records(found)]


def append(house: House, *given: bytes, name: str = TOPIC, index: int = 0, acks: int = 1) -> Partition:
    partition = house.replicas.partition(name, index)
    produced = validate_produced(batch(*given), api_version=9, rules=partition.rules, now_ms=NOW_MS)
    house.replicas.append(partition, produced, acks, NOW_MS)
    return partition
