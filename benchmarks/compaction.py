"""The speed of compaction: 150 MB of values of 1 KB, of which a seventh is left."""

import random
import time
from pathlib import Path
from typing import Final, cast

from benchmarks.measuring import Sample, topic_of
from benchmarks.raw_client import drive
from benchmarks.workloads import Workload, address
from compat_tests.support.brokers import Broker
from ottla.wire.codec import decode_response, encode_request
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records.batch import NewRecord, build_batch

# A dirty ratio that no log exceeds.
NEVER: Final = "1.0"
ALTER_VERSION: Final = 1
PRODUCE_VERSION: Final = 9
OF_TOPIC: Final = 2
OF_BROKERS: Final = 4
SEGMENT_BYTES: Final = 30_000_000
BATCHES: Final = 2_500
DIFFERENT: Final = 500
A_BATCH: Final = 60
KEYS: Final = 40_000
PATIENCE_S: Final = 120.0


def compaction(broker: Broker) -> Sample:
    """Return the MB a second, from the moment when the log may be compacted to the checkpoint of its compaction."""
    config = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": NEVER}
    with topic_of(broker, "compacted", config=config) as topic:
        return Sample(_rate(broker, topic))


def _rate(broker: Broker, topic: str) -> float:
    _set(broker, OF_BROKERS, "", "log.cleaner.backoff.ms", "50")
    _fill(broker, topic)
    directory = broker.data / "log"
    *cleanable, active = sorted((directory / f"{topic}-0").glob("*.log"))
    size = sum(path.stat().st_size for path in cleanable)
    _set(broker, OF_TOPIC, topic, "min.cleanable.dirty.ratio", "0.01")
    began = time.perf_counter()
    while not _is_noted(directory / "cleaner-offset-checkpoint", f"{topic} 0 {int(active.stem)}"):
        if time.perf_counter() - began > PATIENCE_S:
            raise RuntimeError("the log is not compacted")
        time.sleep(0.002)
    return size / (time.perf_counter() - began) / 1e6


def _is_noted(checkpoint: Path, line: str) -> bool:
    return checkpoint.exists() and line in checkpoint.read_text().splitlines()


def _fill(broker: Broker, name: str) -> None:
    chance = random.Random(1)
    values = [chance.randbytes(1000) for _ in range(100)]
    now_ms = time.time_ns() // 1_000_000
    frames = []
    for _ in range(DIFFERENT):
        keys = (b"key-%09d" % chance.randrange(KEYS) for _ in range(A_BATCH))
        batch = build_batch([NewRecord(key, chance.choice(values), now_ms) for key in keys])
        topic = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=bytes(batch))])
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
        frames.append(encode_request(PRODUCE_VERSION, 7, "bench", request))
    written = 0

    def count(reply: memoryview) -> None:
        nonlocal written
        _, response = decode_response(reply, ProduceRequest, PRODUCE_VERSION)
        written += not any(
            p.error_code for t in cast(ProduceResponse, response).responses for p in t.partition_responses
        )

    while written < BATCHES:
        drive(address(broker), lambda _: frames, connections=1, in_flight=4, seconds=0.5, check=count)


def _set(broker: Broker, kind: int, name: str, key: str, value: str) -> None:
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[AlterableConfig(name=key, config_operation=0, value=value)],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    errors: list[int] = []

    def check(reply: memoryview) -> None:
        _, response = decode_response(reply, IncrementalAlterConfigsRequest, ALTER_VERSION)
        errors.extend(each.error_code for each in cast(IncrementalAlterConfigsResponse, response).responses)

    frame = encode_request(ALTER_VERSION, 7, "bench", request)
    drive(address(broker), lambda _: [frame], connections=1, in_flight=1, seconds=0.01, check=check)
    if any(errors) or not errors:
        raise RuntimeError(f"{key} cannot be set: {errors}")


WORKLOADS: Final = (Workload("compaction, values of 1 KB", "MB/s", 0.5, True, compaction, True),)
