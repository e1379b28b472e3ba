"""Attacks on the resources of a real broker, while an honest client measures stalls."""

import resource
import select
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import cast

import crc32c
import lz4.frame
import pytest
import snappy
import zstandard

from ottla import Broker
from ottla.broker.node import VALIDATIONS
from ottla.wire.codec import encode_request
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records.batch import NewRecord, build_batch
from ottla.wire.records.compression import Compression
from tests.harness.measuring import AtMost
from tests.support.raw import RawClient
from tests.support.watch import MIB, Watch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SOCKETS = 1000
MEMORY_BOUND = 128 * MIB
STALL_BOUND_SECONDS = 0.1
# A busy machine is slow now and then; a stall comes every time.
TRIES = 3
ZEROS = 600_000_000
# Recent, because retention may delete records older than a week.
NOW = time.time_ns() // 1_000_000


@pytest.fixture(autouse=True)
def room_for_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def broker() -> Iterator[Broker]:
    # All sockets of an attack connect at once; beyond the backlog a socket would wait a second.
    with Broker(socket_listen_backlog_size=SOCKETS) as broker:
        yield broker


def survives(
    broker: Broker,
    attack: Callable[[ExitStack], None],
    what: str,
    tell: Callable[[str], None],
    at_most: AtMost,
    memory_bound: int = MEMORY_BOUND,
) -> None:
    """Attack under watch; close the connections of the attack under watch, too."""
    stalls: list[float] = []
    while len(stalls) < TRIES and min(stalls, default=STALL_BOUND_SECONDS) >= STALL_BOUND_SECONDS:
        watch = Watch(broker.bootstrap, broker.pid)
        with watch, ExitStack() as stack:
            attack(stack)
        tell(f"{what}: {watch}")
        assert watch.peak_growth < memory_bound
        stalls.append(watch.longest_stall)
    at_most(min(stalls), STALL_BOUND_SECONDS)


def connect(stack: ExitStack, bootstrap: str, count: int) -> list[RawClient]:
    return [stack.enter_context(RawClient(bootstrap, 120)) for _ in range(count)]


def settle(broker: Broker) -> None:
    """Wait until a later client got several responses, because the broker has received all earlier bytes then."""
    with RawClient(broker.bootstrap, 120) as client:
        for _ in range(10):
            client.ask(ApiVersionsRequest(), 0)


@pytest.mark.parametrize("size", [10, 60_000])
def test_sockets_that_announce_large_frames_and_send_little_take_little_memory(
    broker: Broker, size: int, tell: Callable[[str], None], at_most: AtMost
) -> None:
    def attack(stack: ExitStack) -> None:
        for client in connect(stack, broker.bootstrap, SOCKETS):
            client.send(struct.pack(">i", 100 * MIB) + bytes(size))
        settle(broker)

    survives(broker, attack, f"{SOCKETS} sockets that announce 100 MiB and send {size} bytes", tell, at_most)


def test_sockets_that_send_byte_by_byte_are_closed_when_they_pause(
    tell: Callable[[str], None], at_most: AtMost
) -> None:
    idle_seconds = 3.0

    def attack(stack: ExitStack) -> None:
        frame = encode_request(0, 1, "slow", ApiVersionsRequest())
        clients = connect(stack, slow.bootstrap, SOCKETS)
        for byte in frame[:5]:
            for client in clients:
                client.send(bytes([byte]))
        last_sent = time.monotonic()
        for client in clients:
            assert client.is_closed()
        # The first clients were silent a little before `last_sent`.
        took = time.monotonic() - last_sent
        assert took > idle_seconds / 2
        at_most(took, idle_seconds + 2)

    with Broker(socket_listen_backlog_size=SOCKETS, connections_max_idle_ms=int(1000 * idle_seconds)) as slow:
        survives(slow, attack, f"{SOCKETS} sockets that send byte by byte", tell, at_most)


def test_no_sockets_exceed_queued_max_request_bytes(tell: Callable[[str], None], at_most: AtMost) -> None:
    def attack(stack: ExitStack) -> None:
        clients = [client.socket for client in connect(stack, bounded.bootstrap, SOCKETS)]
        for client in clients:
            client.setblocking(False)
            client.send(struct.pack(">i", 100 * MIB))
        until = time.monotonic() + 5
        while time.monotonic() < until:
            for client in ready(clients, select.POLLOUT):
                send_some(client, bytes(100_000))

    options = {"socket_listen_backlog_size": SOCKETS, "queued_max_request_bytes": 100 * MIB}
    with Broker(**options) as bounded:
        # While the buffer of a frame grows, a fifth of the frame is in memory twice.
        survives(bounded, attack, f"{SOCKETS} sockets that send what they can", tell, at_most, 125 * MIB + MEMORY_BOUND)


def varint(value: int) -> bytes:
    zigzag, data = value << 1 ^ value >> 63, bytearray()
    while zigzag >= 0x80:
        data.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    data.append(zigzag)
    return bytes(data)


def compressed_zeros(codec: Compression, first: bytes, zeros: int, last: bytes, window_log: int) -> bytes:
    """Return `first`, `zeros` zeros and `last`, compressed piece by piece."""
    if codec is Compression.SNAPPY:
        size = 1 << 15
        block = snappy.compress(bytes(size))
        head, tail = snappy.compress(first), snappy.compress(bytes(zeros % size) + last)
        blocks = [head, *[block] * (zeros // size), tail]
        framed = b"".join(len(each).to_bytes(4, "big") + each for each in blocks)
        return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed
    compress: Callable[[bytes], bytes]
    begin, step = b"", bytes(1_000_000)
    if codec is Compression.GZIP:
        gzip = zlib.compressobj(wbits=31)
        compress, flush = gzip.compress, gzip.flush
    elif codec is Compression.ZSTD:
        parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=window_log)
        zstd = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        compress, flush = zstd.compress, zstd.flush
    else:
        frame = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False)
        begin, compress, flush = frame.begin(), frame.compress, frame.flush
    pieces = [begin, compress(first)]
    pieces += [compress(step) for _ in range(zeros // len(step))]
    pieces += [compress(bytes(zeros % len(step)) + last), flush()]
    return b"".join(pieces)


def bomb(codec: Compression, window_log: int = 0) -> bytes:
    """Return a sound batch of one record with 600 MB of zeros; `window_log` is for zstd."""
    value_size = varint(ZEROS)
    record_size = 3 + 1 + len(value_size) + ZEROS + 1
    first = varint(record_size) + b"\0\0\0" + varint(-1) + value_size
    batch = build_batch([NewRecord(value=b"", timestamp=NOW)])[:61]
    batch += compressed_zeros(codec, first, ZEROS, varint(0), window_log)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))
    return bytes(batch)


def create(bootstrap: str, name: str, **config: str) -> None:
    configs = [CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in config.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=configs)
    with RawClient(bootstrap) as client:
        response = cast(CreateTopicsResponse, client.ask(CreateTopicsRequest(topics=[topic]), 5))
    assert response.topics[0].error_code == 0


def production(topic: str, batch: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


@pytest.mark.parametrize(
    ("codec", "bombers"),
    [
        (Compression.GZIP, 1),
        (Compression.GZIP, 8),
        # Snappy compresses 600 MB only to 28 MB.
        (Compression.SNAPPY, 1),
        (Compression.LZ4, 1),
        (Compression.LZ4, 8),
        (Compression.ZSTD, 1),
        (Compression.ZSTD, 8),
    ],
)
def test_decompression_bombs_take_little_memory_and_stall_no_client(
    broker: Broker, codec: Compression, bombers: int, tell: Callable[[str], None], at_most: AtMost
) -> None:
    data = bomb(codec)
    # Snappy and LZ4 batches exceed the default of max.message.bytes.
    create(broker.bootstrap, "bombed", max_message_bytes=str(40 * MIB))

    def attack(stack: ExitStack) -> None:
        clients = connect(stack, broker.bootstrap, bombers)
        for client in clients:
            client.send(encode_request(9, 1, "bomber", production("bombed", data)))
        for client in clients:
            reply = client.frame()
            assert reply is not None
            response = ProduceResponse.decode(reply[5:], 9)
            assert response.responses[0].partition_responses[0].error_code == 0

    survives(
        broker,
        attack,
        f"{bombers} times {ZEROS // 10**6} MB of zeros in {len(data)} bytes of {codec.name}",
        tell,
        at_most,
    )


def test_bombs_with_the_widest_window_are_decompressed_a_few_at_a_time(
    broker: Broker, tell: Callable[[str], None], at_most: AtMost
) -> None:
    """A zstd window has at most 128 MiB; the broker decompresses VALIDATIONS batches at a time."""
    data = bomb(Compression.ZSTD, window_log=27)
    create(broker.bootstrap, "bombed")

    def attack(stack: ExitStack) -> None:
        clients = connect(stack, broker.bootstrap, 8)
        for client in clients:
            client.send(encode_request(9, 1, "bomber", production("bombed", data)))
        for client in clients:
            assert client.frame() is not None

    windows = VALIDATIONS * 128 * MIB
    survives(broker, attack, "8 bombs of ZSTD with the widest window", tell, at_most, windows + MEMORY_BOUND)


def test_bombs_leave_threads_for_creating_topics(broker: Broker, at_most: AtMost) -> None:
    data = bomb(Compression.GZIP)
    create(broker.bootstrap, "bombed")
    with ExitStack() as stack:
        clients = connect(stack, broker.bootstrap, 16)
        for client in clients:
            client.send(encode_request(9, 1, "bomber", production("bombed", data)))
        settle(broker)
        began = time.monotonic()
        create(broker.bootstrap, "written-by-a-thread")
        created_within = time.monotonic() - began
        assert not ready([clients[-1].socket], select.POLLIN, 0), "the bombs went off too early"
        at_most(created_within, 2)
        for client in clients:
            assert client.frame() is not None


@pytest.mark.parametrize("clients", [1, 50])
def test_clients_that_never_read_stall_only_themselves(
    broker: Broker, clients: int, tell: Callable[[str], None], at_most: AtMost
) -> None:
    create(broker.bootstrap, "large")
    batch = bytes(build_batch([NewRecord(value=bytes(900_000), timestamp=NOW)]))
    with RawClient(broker.bootstrap, 120) as producer:
        for _ in range(20):
            response = cast(ProduceResponse, producer.ask(production("large", batch), 9))
            assert response.responses[0].partition_responses[0].error_code == 0
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 * MIB)
    fetch = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="large", partitions=[partition])])
    requests = encode_request(11, 1, "deaf", fetch) * 200 + encode_request(0, 1, "deaf", ApiVersionsRequest()) * 200

    def attack(stack: ExitStack) -> None:
        deaf = [client.socket for client in connect(stack, broker.bootstrap, clients)]
        for each in deaf:
            each.setblocking(False)
        until = time.monotonic() + 5
        while time.monotonic() < until:
            for each in ready(deaf, select.POLLOUT):
                send_some(each, requests)

    survives(broker, attack, f"{clients} clients that never read", tell, at_most)


def ready(sockets: Iterable[socket.socket], what: int, wait_ms: int = 100) -> list[socket.socket]:
    """Return the sockets that are readable or writable now, by poll, because `select` ends at descriptor 1,023."""
    by_number = {each.fileno(): each for each in sockets}
    poll = select.poll()
    for number in by_number:
        poll.register(number, what)
    return [by_number[number] for number, _ in poll.poll(wait_ms)]


def send_some(to: socket.socket, data: bytes) -> None:
    """Send as much as the socket takes; ignore a socket that the broker closed."""
    with suppress(OSError):
        to.send(data)
