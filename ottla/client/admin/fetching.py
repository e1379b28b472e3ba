"""Reading records without a consumer: one Fetch for each leader, which returns batches as bytes.

Must not know what the records are for. Counterpart in Kafka: FetchRequest.Builder, as SimpleConsumerShell used it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, cast

import trio

from ottla.client.cluster import Client, kafka_error
from ottla.client.gather import gather
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.records.batch import CorruptBatch, Record, iter_batches, iter_records
from ottla.wire.types import TopicPartition

_NAMES_UP_TO: Final = 12
"""Later versions of Fetch have topic ids in place of names."""
_BATCHES_FROM: Final = 4
_WAIT_MS: Final = 500
_MOST_BYTES: Final = 4 << 20
_FIRST_SIZE: Final = 32 << 10
_GROWTH: Final = 8
_MOST_GROWTHS: Final = 3
_MOST_ROUNDS: Final = 12
_SEARCH_SIZE: Final = 1 << 20
_AT_ONCE: Final = 8


class Fetched(NamedTuple):
    """Batches from an offset on; the first batch may begin before it. `end` is the high watermark."""

    batches: memoryview
    end: int


async def fetch(
    client: Client, positions: Mapping[TopicPartition, int], most_bytes: int
) -> dict[TopicPartition, Fetched | KafkaError]:
    """Return the batches of partitions from an offset on, up to `most_bytes` of each.

    A partition whose next batch is larger returns no bytes, unless it is the only partition.
    """
    at_once = max(1, _MOST_BYTES // most_bytes)

    async def exchange(
        broker_id: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Fetched | KafkaError]:
        found: dict[TopicPartition, Fetched | KafkaError] = {}
        for first in range(0, len(partitions), at_once):
            asked = {each: positions[each] for each in partitions[first : first + at_once]}
            response = await client.ask(
                _request(asked, most_bytes), broker_id, FetchResponse, lowest=_BATCHES_FROM, highest=_NAMES_UP_TO
            )
            for topic in response.responses:
                for each in topic.partitions:
                    found[TopicPartition(topic.topic, each.partition_index)] = _fetched(each)
        return found

    return await client.ask_leaders(positions, exchange)


def _request(positions: Mapping[TopicPartition, int], most_bytes: int) -> FetchRequest:
    topics: dict[str, list[FetchPartition]] = {}
    for (topic, partition), offset in positions.items():
        asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=most_bytes)
        topics.setdefault(topic, []).append(asked)
    return FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=max(most_bytes, _MOST_BYTES),
        topics=[FetchTopic(topic=name, partitions=partitions) for name, partitions in topics.items()],
    )


def _fetched(data: PartitionData) -> Fetched | KafkaError:
    if data.error_code != ErrorCode.NONE:
        return kafka_error(data.error_code)
    batches = cast("bytes | memoryview", data.records or b"")
    return Fetched(memoryview(batches), data.high_watermark)


class Scan(NamedTuple):
    """The first match in batches, or None; the offset to continue at; and the count of records."""

    record: Record | None
    next_offset: int
    records: int


def scan(batches: memoryview, offset: int, matches: Callable[[Record], bool] = lambda record: True) -> Scan:
    """Return the first data record at or after an offset that matches. CorruptBatch for a batch that cannot be read."""
    following, count = offset, 0
    for header, batch in iter_batches(batches):
        if header.last_offset < offset:
            continue
        if not header.is_control:
            for record in iter_records(batch):
                if record.offset >= offset:
                    count += 1
                    if matches(record):
                        return Scan(record, record.offset + 1, count)
        following = header.next_offset
    return Scan(None, following, count)


# Timestamps


Place = tuple[TopicPartition, int]


async def first_timestamps(client: Client, places: Sequence[Place], nothing: int) -> dict[Place, int | None]:
    """Return the timestamp of the first data record at or after each offset; `nothing` if there is no record.

    None: unknown, because the offset is out of range or the record cannot be read. Several places in one partition
    (of several groups) need several requests, because a Fetch has one offset for each partition.
    """
    layers: list[dict[TopicPartition, int]] = []
    depth: dict[TopicPartition, int] = {}
    for partition, offset in dict.fromkeys(places):
        level = depth.get(partition, 0)
        depth[partition] = level + 1
        if level == len(layers):
            layers.append({})
        layers[level][partition] = offset
    found: dict[Place, int | None] = {}
    limiter = trio.CapacityLimiter(_AT_ONCE)
    for each in await gather(partial(_layer, client, layer, nothing, limiter) for layer in layers):
        found |= each
    return found


async def _layer(
    client: Client, layer: Mapping[TopicPartition, int], nothing: int, limiter: trio.CapacityLimiter
) -> dict[Place, int | None]:
    """Return the timestamps of places in different partitions.

    The first request is for `_FIRST_SIZE`, because most batches are small; the next ones for more.
    """
    found: dict[Place, int | None] = {}
    positions = dict(layer)
    async with limiter:
        for number in range(_MOST_ROUNDS):
            if not positions:
                break
            most_bytes = _FIRST_SIZE * _GROWTH ** min(number, _MOST_GROWTHS)
            for partition, result in (await fetch(client, positions, most_bytes)).items():
                timestamp, following = _first_timestamp(result, positions[partition], nothing)
                if following is None:
                    found[partition, layer[partition]] = timestamp
                    del positions[partition]
                else:
                    positions[partition] = following
    return found | {(partition, layer[partition]): None for partition in positions}


def _first_timestamp(result: Fetched | KafkaError, offset: int, nothing: int) -> tuple[int | None, int | None]:
    """Return a timestamp and None, or None and the offset to continue at."""
    if isinstance(result, KafkaError):
        return None, None
    try:
        scanned = scan(result.batches, offset)
    except CorruptBatch:
        return None, None
    if scanned.record is not None:
        return scanned.record.timestamp, None
    return (nothing, None) if scanned.next_offset >= result.end else (None, scanned.next_offset)


# Searching


class SearchResult(NamedTuple):
    """The offset of the first match; None if there is none, or if the search ended early (not `is_complete`)."""

    offset: int | None
    records: int
    is_complete: bool


async def find_records(
    client: Client,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    matches: Callable[[Record], bool],
    most_records: int,
    on_progress: Callable[[int], None],
) -> dict[TopicPartition, SearchResult | KafkaError]:
    """Return the first matching record of each partition, between two offsets (the second exclusive).

    The search in a partition ends after about `most_records`. `on_progress` is called with the count of records so far.
    """
    limiter = trio.CapacityLimiter(_AT_ONCE)
    done = 0

    def count(records: int) -> None:
        nonlocal done
        done += records
        on_progress(done)

    async def search(partition: TopicPartition) -> SearchResult | KafkaError:
        async with limiter:
            return await _search(client, partition, ranges[partition], matches, most_records, count)

    found = await gather(partial(search, each) for each in ranges)
    return dict(zip(ranges, found, strict=True))


async def _search(
    client: Client,
    partition: TopicPartition,
    offsets: tuple[int, int],
    matches: Callable[[Record], bool],
    most_records: int,
    on_records: Callable[[int], None],
) -> SearchResult | KafkaError:
    offset, end = offsets
    count = empty = 0
    while offset < end:
        if count >= most_records or empty >= _MOST_ROUNDS:
            return SearchResult(None, count, False)
        result = (await fetch(client, {partition: offset}, _SEARCH_SIZE))[partition]
        if isinstance(result, KafkaError):
            return result
        scanned = scan(result.batches, offset, matches)
        count += scanned.records
        on_records(scanned.records)
        if scanned.record is not None:
            is_found = scanned.record.offset < end
            return SearchResult(scanned.record.offset if is_found else None, count, True)
        empty = empty + 1 if scanned.next_offset == offset else 0
        offset = scanned.next_offset
    return SearchResult(None, count, True)
