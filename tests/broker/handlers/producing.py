"""Helpers of the tests of Produce."""

from ottla.broker.handlers import produce
from ottla.broker.handlers.produce import Answer
from ottla.broker.loop.deferred import Deferred
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.reads import TO_LOG_END, Reader
from ottla.broker.transactions.verification import Verifier
from ottla.wire.api_keys import ApiKey
from ottla.wire.messages.fetch import FetchPartition
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.schema import Request, Response
from tests.broker.support.hosted import TOPIC, House, batch, context

Records = memoryview | None
VERSION = 11


def request(
    *records: tuple[str, int, Records], acks: int = -1, transactional_id: str | None = None, timeout_ms: int = 1000
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=data)])
            for topic, index, data in records
        ],
    )


def without_coordinator(house: House) -> Verifier:
    """Return a verifier that finds no coordinator of any transaction."""

    async def ask(broker_id: int, request: Request) -> Response:
        raise AssertionError("nobody is to be asked")

    return Verifier(ask, house.metadata, house.start_soon, lambda name: None, lambda: True)


def begin(
    house: House,
    asked: ProduceRequest,
    version: int = VERSION,
    client_id: str | None = "test",
    verifier: Verifier | None = None,
) -> Answer:
    return produce.handle(
        asked,
        context(ApiKey.PRODUCE, version, client_id),
        replicas=house.replicas,
        clock=house.clock,
        offload=house.offload,
        start_soon=house.start_soon,
        slow_appends=house.parts.slow_appends,
        verifier=verifier or without_coordinator(house),
    )


def send(
    house: House,
    asked: ProduceRequest,
    version: int = VERSION,
    client_id: str | None = "test",
    verifier: Verifier | None = None,
) -> Answer:
    """Return the answer; the response itself, if it is there already."""
    answer = begin(house, asked, version, client_id, verifier)
    if isinstance(answer, Deferred) and answer.done:
        return answer.response
    return answer


def now(house: House, asked: ProduceRequest, version: int = VERSION, client_id: str | None = "test") -> ProduceResponse:
    answer = send(house, asked, version, client_id)
    assert isinstance(answer, ProduceResponse)
    # Every response can be encoded.
    assert ProduceResponse.decode(answer.encode(VERSION), VERSION) == answer
    return answer


def answers(response: ProduceResponse) -> list[PartitionProduceResponse]:
    return [found for topic in response.responses for found in topic.partition_responses]


def codes(house: House, asked: ProduceRequest, version: int = VERSION, client_id: str | None = "test") -> list[int]:
    return [found.error_code for found in answers(now(house, asked, version, client_id))]


def one(records: Records, **options: object) -> ProduceRequest:
    return request((TOPIC, 0, records), **options)  # type: ignore[arg-type]


def hosted(house: House, index: int = 0) -> Partition:
    return house.replicas.partition(TOPIC, index)


def damaged(data: memoryview, at: int, new: bytes, *, keep_crc: bool = False) -> memoryview:
    changed = bytearray(data)
    changed[at : at + len(new)] = new
    if not keep_crc:
        import crc32c

        changed[17:21] = crc32c.crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return memoryview(changed)


def follower_has(house: House, offset: int) -> None:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
    reader = Reader(1, -1, TO_LOG_END, from_leader_only=True)
    house.replicas.read(reader, TOPIC, 0, bytes(16), asked, 1, at_least_one=True)


def idempotent(sequence: int, *values: bytes, epoch: int = 0) -> memoryview:
    return batch(*values, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
