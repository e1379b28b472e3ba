"""Frames mutated at random, at every API and version that is advertised: the broker stays up, and stays small."""

import os
import random
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from ottla import Broker
from ottla.wire.codec import encode_request
from ottla.wire.messages import request_type
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.record_batch import NewRecord, build_batch
from tests.raw import RawClient
from tests.wire.random_messages import random_message

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
FRAMES_A_TRIAL = 400
MEBIBYTE = 1 << 20


def flip(frame: bytearray, chance: random.Random) -> bytearray:
    for _ in range(chance.randint(1, 4)):
        frame[chance.randrange(len(frame))] = chance.randrange(256)
    return frame


def cut(frame: bytearray, chance: random.Random) -> bytearray:
    return frame[: chance.randrange(1, len(frame))]


def grow(frame: bytearray, chance: random.Random) -> bytearray:
    at = chance.randrange(len(frame))
    return frame[:at] + chance.randbytes(chance.randint(1, 40)) + frame[at:]


def lengthen(frame: bytearray, chance: random.Random) -> bytearray:
    """Put a huge number where a length may be."""
    at = chance.randrange(max(1, len(frame) - 4))
    frame[at : at + 4] = struct.pack(">i", chance.choice([2**31 - 1, -1, -2, 2**24, 10**6]))
    return frame


MUTATIONS: list[Callable[[bytearray, random.Random], bytearray]] = [flip, cut, grow, lengthen]


def mutated(apis: list[tuple[int, int, int]], chance: random.Random) -> bytes:
    """Return one frame that was a request once."""
    key, lowest, highest = chance.choice(apis)
    version = chance.randint(lowest, highest)
    kind = request_type(key)
    assert kind is not None
    if key == 0:
        version = max(version, 3)
    message = random_message(kind, version, chance)
    for topic in getattr(message, "topic_data", ()):
        for data in topic.partition_data:
            data.records = bytes(build_batch([NewRecord(value=chance.randbytes(30), timestamp=0)]))
    if hasattr(message, "max_wait_ms"):
        message.max_wait_ms = 0
    frame = bytearray(encode_request(version, 1, "mutant", message)[4:])
    return bytes(chance.choice(MUTATIONS)(frame, chance))


class Canary(threading.Thread):
    """A well-behaved client: counts how long it waits."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.waits: list[float] = []
        self.stopping = threading.Event()
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            with RawClient(self.bootstrap, 10) as client:
                while not self.stopping.wait(0.01):
                    began = time.monotonic()
                    client.ask(MetadataRequest(topics=[]), 9)
                    self.waits.append(time.monotonic() - began)
        except Exception as error:
            self.failure = error


def test_mutated_frames_neither_crash_nor_bloat_the_broker(trials: int, seed: int, tell: Callable[[str], None]) -> None:
    chance = random.Random(seed)
    count = trials * FRAMES_A_TRIAL
    with Broker(auto_create_topics_enable="false") as broker:
        with RawClient(broker.bootstrap) as client:
            keys = cast(ApiVersionsResponse, client.ask(ApiVersionsRequest(), 0)).api_keys
        apis = [(k.api_key, k.min_version, k.max_version) for k in keys]
        canary = Canary(broker.bootstrap)
        canary.start()
        send_all(broker.bootstrap, [mutated(apis, chance) for _ in range(200)])
        memory, descriptors = resident(broker.pid), open_files(broker.pid)
        for _ in range(count // 100):
            send_all(broker.bootstrap, [mutated(apis, chance) for _ in range(100)])
        canary.stopping.set()
        canary.join(15)
        assert canary.failure is None
        settled(lambda: open_files(broker.pid) <= descriptors)
        growth = resident(broker.pid) - memory
        p99 = sorted(canary.waits)[int(len(canary.waits) * 0.99)]
        tell(f"{count} frames, canary p99 {p99:.3f} s, memory up by {growth / MEBIBYTE:.1f} MiB")
        assert growth < 64 * MEBIBYTE
        assert p99 < 1.0
        assert "Traceback" not in broker.output


def send_all(bootstrap: str, frames: list[bytes]) -> None:
    """Send frames, over a new connection whenever the broker has closed the last one."""
    waiting = iter(frames)
    frame = next(waiting, None)
    while frame is not None:
        with RawClient(bootstrap, 3) as client:
            while frame is not None:
                try:
                    client.send_frame(frame)
                    frame = next(waiting, None)
                    if client.frame() is None:
                        break
                except TimeoutError:
                    break
                except OSError:
                    frame = next(waiting, None)
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
