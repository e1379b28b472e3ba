"""Randomly mutated frames of every advertised API and version: the broker stays up, and stays small."""

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import filterfalse
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from ottla import Broker
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import decode_request, encode_request
from ottla.wire.errors import DecodeError
from ottla.wire.messages import request_type
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.records.batch import NewRecord, build_batch
from ottla.wire.schema import Request, Struct
from tests.harness.measuring import AtMost
from tests.support.raw import RawClient
from tests.wire.mutations import mutated
from tests.wire.random_messages import random_message

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MEBIBYTE = 1 << 20
FRAMES_A_ROUND = 100
# A client gives up frames that wait after this time, while the broker still handles other frames.
PATIENCE_S = 0.5
# No random frame names this id. A ControlledShutdown with it would end the leadership of the broker.
BROKER_ID = 701
THERE = ("there-0", "there-1", "there-2")
MADE = tuple(f"made-{each}" for each in range(10))
MANY_PARTITIONS = 500
# A frame that asks for more is not sent, because partitions take time and memory, unless the broker refuses it.
FEW_PARTITIONS = 1000
TOO_MANY_PARTITIONS = 10_000
CONFIGS = ("retention.ms", "cleanup.policy", "max.message.bytes", "segment.bytes", "compression.type", "no.such")

Api = tuple[ApiKey, int]


def sensible(value: Any, chance: Random) -> None:
    """Change a random message so that it mostly names existing objects, and waits for nothing."""
    if isinstance(value, CreatableTopic | CreatePartitionsTopic) and chance.random() < 0.9:
        value.assignments = () if isinstance(value, CreatableTopic) else None
    if isinstance(value, CreatableTopic) and chance.random() < 0.8:
        value.configs = ()
    is_config = hasattr(value, "value")
    for name in type(value).__slots__:
        found = getattr(value, name)
        if isinstance(found, Struct):
            sensible(found, chance)
        elif isinstance(found, list | tuple) and found and isinstance(found[0], Struct):
            for each in found:
                sensible(each, chance)
        elif chance.random() < 0.8:
            better = chance.choice(CONFIGS) if is_config and name == "name" else likely(name, chance)
            if better is not None and isinstance(found, type(better)):
                setattr(value, name, better)
    if hasattr(value, "records"):
        records = [NewRecord(value=chance.randbytes(30), timestamp=0) for _ in range(chance.randint(1, 5))]
        value.records = bytes(build_batch(records))


def likely(name: str, chance: Random) -> Any:
    match name:
        case "name" | "topic" | "topic_name":
            return chance.choice((*THERE, *MADE))
        case "resource_name":
            return chance.choice((*THERE, *MADE, str(BROKER_ID), ""))
        case "index" | "partition" | "partition_index":
            return chance.choice((0, 0, 0, 1, -1))
        case "count" | "num_partitions":
            return chance.choice((-1, 1, 3, MANY_PARTITIONS))
        case "replication_factor":
            return 1
        case "resource_type":
            return chance.choice((2, 2, 4))
        case "timeout_ms" | "max_wait_ms":
            return chance.choice((0, 1, 100))
        case "acks":
            return chance.choice((-1, 0, 1))
        case "validate_only":
            return False
        case "value":
            return chance.choice(("1", "1000000", "delete", "compact", "gzip", "producer"))
        case _ if name.endswith("epoch"):
            return -1
        case _:
            return None


def whole(api: Api, chance: Random) -> bytes:
    """Return a good frame of an API in a version."""
    key, version = api
    kind = request_type(key)
    assert kind is not None
    message: Request = random_message(kind, version, chance)
    sensible(message, chance)
    return encode_request(version, chance.getrandbits(31), chance.choice((None, "mutant")), message)[4:]


def mutants(apis: list[Api], chance: Random) -> Iterator[bytes]:
    """Yield frames of all APIs and versions in turn: mutated, spliced from two, and some unchanged."""
    for api in itertools.cycle(apis):
        frame = whole(api, chance)
        kind = chance.random()
        if kind < 0.3:
            yield frame
        elif kind < 0.4:
            other = whole(chance.choice(apis), chance)
            yield frame[: chance.randrange(1, len(frame) + 1)] + other[chance.randrange(len(other)) :]
        else:
            # At least one byte, because an empty frame is no frame.
            yield mutated(frame, chance) or b"\0"


OF_CONTROLLERS = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA}


def asks_for_much(frame: bytes) -> bool:
    """Whether a frame asks for many partitions."""
    try:
        _, request = decode_request(memoryview(frame))
    except DecodeError:
        return False
    counts: list[int] = []
    if isinstance(request, CreateTopicsRequest):
        counts = [topic.num_partitions for topic in request.topics]
    elif isinstance(request, CreatePartitionsRequest):
        counts = [topic.count for topic in request.topics]
    return any(FEW_PARTITIONS < count <= TOO_MANY_PARTITIONS + FEW_PARTITIONS for count in counts)


class Canary(threading.Thread):
    """A well-behaved client that measures its waits."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.waits: list[float] = []
        self.stopping = threading.Event()
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            with RawClient(self.bootstrap, 120) as client:
                while not self.stopping.wait(0.01):
                    began = time.monotonic()
                    client.ask(MetadataRequest(topics=[]), 9)
                    self.waits.append(time.monotonic() - began)
        except Exception as error:
            self.failure = error


@pytest.mark.trials(few=4_000, soak=100_000)
def test_mutated_frames_neither_crash_nor_bloat_the_broker(
    trials: int, seed: int, tell: Callable[[str], None], at_most: AtMost
) -> None:
    with Broker(auto_create_topics_enable="false", broker_id=str(BROKER_ID)) as broker:
        with RawClient(broker.bootstrap) as client:
            keys = cast(ApiVersionsResponse, client.ask(ApiVersionsRequest(), 0)).api_keys
        apis = [(ApiKey(each.api_key), v) for each in keys for v in range(each.min_version, each.max_version + 1)]
        # The broker lists these versions but does not serve them.
        apis = [(key, version) for key, version in apis if key != ApiKey.PRODUCE or version >= 3]
        # Requests of a controller have lasting effects; only trusted clients of a cluster may send them.
        apis = [(key, version) for key, version in apis if key not in OF_CONTROLLERS]
        frames = filterfalse(asks_for_much, mutants(apis, Random(seed)))
        canary = Canary(broker.bootstrap)
        canary.start()
        for _ in range(10):
            send_round(broker.bootstrap, frames)
        memory, descriptors = resident(broker.pid), open_files(broker.pid)
        for _ in range(trials // FRAMES_A_ROUND):
            send_round(broker.bootstrap, frames)
        canary.stopping.set()
        canary.join(120)
        assert canary.failure is None

        def nothing_is_left() -> bool:
            # Some requests still run after their clients have gone.
            delete_all(broker.bootstrap)
            return open_files(broker.pid) <= descriptors

        settled(nothing_is_left)
        growth = resident(broker.pid) - memory
        p99 = sorted(canary.waits)[int(len(canary.waits) * 0.99)]
        tell(
            f"{trials} frames of {len(apis)} versions, canary p99 {p99:.3f} s, longest {max(canary.waits):.3f} s, "
            f"memory up by {growth / MEBIBYTE:.1f} MiB"
        )
        assert growth < 64 * MEBIBYTE
        at_most(p99, 1.0)
        assert "A bug" not in broker.output
        assert "Traceback" not in broker.output


def send_round(bootstrap: str, frames: Iterator[bytes]) -> None:
    """Send frames while fresh topics exist; then delete everything that the frames created."""
    topics = [
        CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=(), configs=()) for name in THERE
    ]
    with RawClient(bootstrap, 120) as client:
        client.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 5)
        send_all(bootstrap, list(itertools.islice(frames, FRAMES_A_ROUND)))
    delete_all(bootstrap)


def delete_all(bootstrap: str) -> None:
    with RawClient(bootstrap, 120) as client:
        found = cast(MetadataResponse, client.ask(MetadataRequest(topics=None), 9))
        names = [topic.name for topic in found.topics if topic.name is not None]
        client.ask(DeleteTopicsRequest(topics=(), topic_names=names, timeout_ms=30_000), 4)


def send_all(bootstrap: str, frames: list[bytes]) -> None:
    """Send frames, over a new connection whenever the broker has closed the last one."""
    waiting = iter(frames)
    frame = next(waiting, None)
    while frame is not None:
        with RawClient(bootstrap, PATIENCE_S) as client:
            while frame is not None:
                sent, frame = frame, next(waiting, None)
                try:
                    client.send_frame(sent)
                    if client.frame() is None:
                        break
                except OSError:
                    break


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def settled(condition: Callable[[], bool]) -> None:
    """Wait for a condition, within bounds."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
