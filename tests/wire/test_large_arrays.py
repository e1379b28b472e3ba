"""Requests of many elements are read as others, and take bounded memory."""

import tracemalloc
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from ottla.wire.codec import decode_large_request, decode_request, encode_request
from ottla.wire.compiled.compiler import large_decoder
from ottla.wire.errors import DecodeError
from ottla.wire.large_arrays import FEW_ELEMENTS, MAX_ELEMENTS, SMALL_FRAME, Budget, LargeArray, ManyElements
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.schema import ArrayOf, Request, Struct, StructOf, fields
from tests.wire.random_messages import all_versions, label, random_message

REQUESTS = [(message, version) for message, version in all_versions() if issubclass(message, Request)]
MANY = 100_000
MIB = 2**20


@pytest.fixture
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def cost(decode: Any, frame: memoryview) -> tuple[Any, int]:
    """Return the decoded value or the error, and the memory that decoding took."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        result = decode(frame)
    except DecodeError as error:
        result = error
    return result, tracemalloc.get_traced_memory()[1] - before


def least(cls: type[Struct], version: int) -> Any:
    """Return a struct of the least size."""
    values: dict[str, Any] = {}
    for field in fields(cls):
        if version not in field.versions or field.is_tagged(version):
            values[field.name] = field.default
        elif version in field.nullable:
            values[field.name] = None
        elif isinstance(field.type, StructOf):
            values[field.name] = least(field.type.struct, version)
        elif isinstance(field.type, ArrayOf):
            values[field.name] = ()
        else:
            values[field.name] = field.type.zero
    return cls(**values)


def crafted() -> Iterator[tuple[type[Request], int, str]]:
    """Return every array of every request, in every version."""
    for message, version in REQUESTS:
        for field in fields(message):
            if isinstance(field.type, ArrayOf) and version in field.versions and not field.is_tagged(version):
                yield message, version, field.name


def crafted_frame(message: type[Request], version: int, name: str, count: int) -> memoryview:
    request = least(message, version)
    field = next(field for field in fields(message) if field.name == name)
    assert isinstance(field.type, ArrayOf)
    element = field.type.element
    one = least(element.struct, version) if isinstance(element, StructOf) else element.zero
    setattr(request, name, [one] * count)
    return memoryview(encode_request(version, 1, None, request))[4:]


@pytest.mark.parametrize(("message", "version"), REQUESTS, ids=label)
@pytest.mark.parametrize("kept", [0, 1, 1000])
def test_a_request_is_read_alike_however_much_of_it_is_kept(
    message: type[Request], version: int, kept: int, seed: int
) -> None:
    random = Random(f"{seed} {message.__name__} {version}")
    request = random_message(message, version, random)
    encoded = request.encode(version)
    found, end = large_decoder(message, version)(memoryview(encoded), 0, Budget(MAX_ELEMENTS, kept, kept))
    assert end == len(encoded)
    assert found == request
    assert found == request, "a second time"


@pytest.mark.usefixtures("_traced")
@pytest.mark.trials(few=10, soak=50)
def test_frames_of_least_elements_cost_little(seed: int, trials: int) -> None:
    cases = list(crafted())
    for message, version, name in Random(seed).sample(cases, min(len(cases), trials)):
        frame = crafted_frame(message, version, name, MANY)
        bound = 4 * len(frame) + MIB
        refused, taken = cost(decode_request, frame)
        assert isinstance(refused, ManyElements), (message, version, name)
        assert taken < bound, (message, version, name)
        (_, request), taken = cost(decode_large_request, frame)
        assert len(getattr(request, name)) == MANY
        assert taken < bound, (message, version, name)


@pytest.mark.usefixtures("_traced")
@pytest.mark.trials(few=30, soak=150)
def test_small_frames_of_least_elements_cost_little(seed: int, trials: int) -> None:
    cases = list(crafted())
    for message, version, name in Random(seed).sample(cases, min(len(cases), trials)):
        size = len(crafted_frame(message, version, name, 100)) - len(crafted_frame(message, version, name, 0))
        for room in (SMALL_FRAME, 2 * SMALL_FRAME):
            frame = crafted_frame(message, version, name, 100 * room // size - 100)
            assert cost(decode_request, frame)[1] < 4 * len(frame) + MIB, (message, version, name)


@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize("count", [MAX_ELEMENTS + 1, 50_000_000])
def test_too_many_elements_are_refused_before_they_are_read(count: int) -> None:
    frame = memoryview(b"\0\3\0\0\0\0\0\1\xff\xff" + count.to_bytes(4, "big") + bytes(2 * count))
    for decode in (decode_request, decode_large_request):
        refused, taken = cost(decode, frame)
        assert isinstance(refused, ManyElements)
        assert taken < MIB


def test_elements_of_elements_count() -> None:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = ListOffsetsTopic(name="t", partitions=[partition] * 999)
    frames = [
        memoryview(encode_request(1, 1, None, ListOffsetsRequest(replica_id=-1, topics=[topic] * count)))[4:]
        for count in (1000, 1001)
    ]
    decode_large_request(frames[0])
    with pytest.raises(ManyElements):
        decode_large_request(frames[1])


def test_tagged_fields_count() -> None:
    def frame(topics: int, tags: int) -> memoryview:
        topic = b"\x02a" + (0x80 | tags & 0x7F).to_bytes(1, "big") + (tags >> 7).to_bytes(1, "big") + b"\x09\0" * tags
        count = (0x80 | (topics + 1) & 0x7F).to_bytes(1, "big") + ((topics + 1) >> 7).to_bytes(1, "big")
        return memoryview(b"\0\3\0\x09\0\0\0\1\xff\xff\0" + count + topic * topics + b"\0\0\0\0")

    assert len(decode_large_request(frame(300, 3000))[1].topics) == 300  # type: ignore[attr-defined]
    with pytest.raises(ManyElements):
        decode_large_request(frame(400, 3000))
    with pytest.raises(DecodeError):
        decode_large_request(frame(1, 5000))


def test_few_elements_are_plain_lists() -> None:
    def frame(count: int) -> memoryview:
        topics = [MetadataRequestTopic(name="a-name-of-some-length") for _ in range(count)]
        return memoryview(encode_request(9, 1, None, MetadataRequest(topics=topics)))[4:]

    assert len(frame(FEW_ELEMENTS)) > SMALL_FRAME
    _, request = decode_request(frame(FEW_ELEMENTS))
    assert isinstance(request, MetadataRequest)
    assert type(request.topics) is list
    with pytest.raises(ManyElements):
        decode_request(frame(FEW_ELEMENTS + 1))


def test_an_array_that_is_not_kept_is_a_sequence() -> None:
    names = [f"topic-{number}" for number in range(5000)]
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    _, found = decode_large_request(memoryview(encode_request(9, 1, None, request))[4:])
    assert isinstance(found, MetadataRequest)
    topics = found.topics
    assert isinstance(topics, LargeArray)
    assert [topic.name for topic in topics] == names
    assert [topic.name for topic in topics] == names
    assert topics[17].name == topics[-4983].name == "topic-17"
    assert [topic.name for topic in topics[10:12]] == ["topic-10", "topic-11"]
    assert topics == request.topics
    assert topics != [*names[:-1], "another"]
    assert topics != names[:-1]
    with pytest.raises(IndexError):
        topics[5000]
