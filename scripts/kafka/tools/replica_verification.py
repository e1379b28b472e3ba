"""kafka-replica-verification: compare the batches of all replicas repeatedly.

Counterpart: org.apache.kafka.tools.ReplicaVerificationTool.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple, NoReturn, cast

from ottla.client.admin.offsets import FoundOffset, list_offsets
from ottla.client.cluster import Client
from ottla.client.errors import ClientError
from ottla.client.gather import gather
from ottla.scripts.kafka.calls import as_execution, client_config, reached
from ottla.scripts.kafka.face import Face, JavaError, ToolExit
from ottla.scripts.kafka.filters import IncludeList
from ottla.scripts.kafka.flags import (
    HELP,
    VERSION,
    Flag,
    Parsed,
    check_invalid,
    check_required,
    flag,
    maybe_print_help_or_version,
    parse,
    print_usage_and_exit,
)
from ottla.scripts.kafka.java.hashes import by_partition_hash
from ottla.wire.errors import KafkaError
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.records.batch import BatchHeader, iter_batches
from ottla.wire.types import TopicPartition

_WHITE_LIST: Final = flag("topic-white-list", argument="Java regex (String)", default=".*", help="The same, once.")
_FLAGS: Final[Sequence[Flag]] = (
    HELP,
    VERSION,
    flag("broker-list", argument="hostname:port,...,hostname:port", help="The brokers to ask (required)."),
    flag("fetch-size", argument="bytes", type=int, default=1 << 20, help="Bytes of a partition in one fetch."),
    flag("max-wait-ms", argument="ms", type=int, default=1000, help="How long a fetch waits for records."),
    flag("topics-include", argument="Java regex (String)", default=".*", help="The topics to compare."),
    flag("time", argument="timestamp", type=int, default=-1, help="Where to begin: a time, -1 (the end) or -2."),
    flag("report-interval-ms", argument="ms", type=int, default=30000, help="How often to report."),
)
_ABOUT: Final = "Validate that all replicas for a set of topics have the same data."
_NAMES_UP_TO: Final = 12
"""Later versions of Fetch have topic ids in place of names."""
_DEBUGGING_CONSUMER: Final = -2
"""The replica id with which followers can be read."""
_CRC: Final = slice(17, 21)
"""The place of the checksum in a batch."""


class _Fetched(NamedTuple):
    """One replica's batches of a partition."""

    batches: Sequence[BatchHeader] = ()
    checksums: Sequence[int] = ()
    high_watermark: int = -1


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool until it is interrupted, or until replicas differ in their offsets."""
    flags = [*_FLAGS, _WHITE_LIST] if face.is_3_9 else _FLAGS
    try:
        parsed = parse(flags, arguments)
        maybe_print_help_or_version(face, flags, parsed, arguments, _ABOUT)
        check_required(face, flags, parsed, "broker-list")
        if face.is_3_9:
            check_invalid(face, flags, parsed, "topics-include", ["topic-white-list"])
        servers = parsed.value("broker-list")
        _check_servers(servers, flags, face)
        config = client_config(face, servers, None)
        reached(face, config, "listTopics", _verify, _topics(parsed, face), parsed, face)
    except JavaError as error:
        face.complain(str(error.message))
        face.complain_trace(error)
    return 1


def _check_servers(servers: str, flags: Sequence[Flag], face: Face) -> None:
    if not servers.strip():
        raise print_usage_and_exit(face, flags, "Error while validating the bootstrap address\n")
    if not all(each.rpartition(":")[0] and each.rpartition(":")[2].isdigit() for each in servers.split(",")):
        raise print_usage_and_exit(face, flags, "Please provide valid host:port like host1:9091,host2:9092\n")


def _topics(parsed: Parsed, face: Face) -> IncludeList:
    is_old = face.is_3_9 and not parsed.has("topics-include")
    text = parsed.value("topic-white-list" if is_old else "topics-include")
    try:
        return IncludeList(text)
    except JavaError:
        raise JavaError("java.lang.RuntimeException", f"{text} is an invalid regex") from None


async def _verify(client: Client, wanted: IncludeList, parsed: Parsed, face: Face) -> NoReturn:
    topics = [
        each for each in (await client.metadata(None)).topics if wanted.allows(each.name or "", exclude_internal=False)
    ]
    if not topics:
        raise ToolExit(1)
    replicas = {
        TopicPartition(topic.name or "", each.partition_index): list(each.replica_nodes)
        for topic in topics
        for each in topic.partitions
    }
    comparison = _Comparison(replicas, await _offsets(client, list(replicas), parsed.value("time")), face)
    sizes = (parsed.value("fetch-size"), parsed.value("max-wait-ms"))
    face.print(f"{_now()}: verification process is started")
    face.flush()
    reported = time.monotonic()
    while True:
        comparison.compare(await _fetch_all(client, comparison, *sizes))
        if (time.monotonic() - reported) * 1000 > parsed.value("report-interval-ms"):
            comparison.report()
            reported = time.monotonic()
        face.flush()


def _now() -> str:
    return datetime.now().strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]


async def _offsets(client: Client, partitions: Sequence[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    found = {}
    for partition, result in (await list_offsets(client, dict.fromkeys(partitions, timestamp))).items():
        if isinstance(result, KafkaError):
            raise as_execution(result, "listOffsets")
        if result == FoundOffset(-1):
            raise JavaError(
                "java.lang.NullPointerException",
                'Cannot invoke "org.apache.kafka.clients.consumer.OffsetAndTimestamp.offset()" because the return '
                'value of "java.util.Map$Entry.getValue()" is null',
            )
        found[partition] = result.offset
    return found


class _Comparison:
    """The offsets up to which the replicas of each partition are equal."""

    def __init__(
        self, replicas: Mapping[TopicPartition, Sequence[int]], offsets: dict[TopicPartition, int], face: Face
    ) -> None:
        self.replicas = {each: replicas[each] for each in by_partition_hash(replicas)}
        self.offsets = offsets
        self._face = face
        self._lag: tuple[int, TopicPartition | None, int] = (-1, None, -1)

    def compare(self, fetched: Mapping[tuple[TopicPartition, int], _Fetched]) -> None:
        """Print the differences of replicas, and move the offsets to the end of the equal batches."""
        self._lag = (-1, self._lag[1], self._lag[2])
        for partition, brokers in self.replicas.items():
            found = {each: fetched.get((partition, each), _Fetched()) for each in sorted(brokers)}
            place = 0
            while (following := self._following(partition, found, place)) is not None:
                self.offsets[partition] = following
                place += 1
            lag = max(each.high_watermark for each in found.values()) - self.offsets[partition]
            if lag > self._lag[0]:
                self._lag = (lag, partition, self.offsets[partition])

    def _following(self, partition: TopicPartition, found: Mapping[int, _Fetched], place: int) -> int | None:
        """Return the offset after a batch that all replicas have; None if one lacks it."""
        first: tuple[int, BatchHeader, int] | None = None
        is_everywhere = True
        for broker, each in found.items():
            if place >= len(each.batches) or each.batches[place].last_offset >= each.high_watermark:
                is_everywhere = False
                continue
            batch, checksum = each.batches[place], each.checksums[place]
            if first is None:
                first = (broker, batch, checksum)
            elif first[1].last_offset != batch.last_offset:
                self._face.print(
                    f"{_now()}: partition {partition}: replica {first[0]}'s offset {first[1].last_offset} doesn't "
                    f"match replica {broker}'s offset {batch.last_offset}"
                )
                raise ToolExit(1)
            elif first[2] != checksum:
                self._face.print(
                    f"{_now()}: partition {partition} has unmatched checksum at offset {batch.last_offset}; replica "
                    f"{first[0]}'s checksum {first[2]}; replica {broker}'s checksum {checksum}"
                )
        return first[1].next_offset if is_everywhere and first is not None else None

    def report(self) -> None:
        """Print the partition with the largest lag."""
        lag, partition, offset = self._lag
        shown = "null" if partition is None else partition
        self._face.print(
            f"{_now()}: max lag is {lag} for partition {shown} at offset {offset} among {len(self.replicas)} partitions"
        )


async def _fetch_all(
    client: Client, comparison: _Comparison, size: int, wait_ms: int
) -> dict[tuple[TopicPartition, int], _Fetched]:
    by_broker: dict[int, list[TopicPartition]] = {}
    for partition, brokers in comparison.replicas.items():
        for broker in brokers:
            by_broker.setdefault(broker, []).append(partition)
    found: dict[tuple[TopicPartition, int], _Fetched] = {}

    async def ask(broker_id: int, partitions: Sequence[TopicPartition]) -> None:
        request = _request({each: comparison.offsets[each] for each in partitions}, size, wait_ms)
        try:
            response = await client.ask(
                request, broker_id, FetchResponse, lowest=4, highest=_NAMES_UP_TO, timeout_seconds=wait_ms / 1000
            )
        except (ClientError, KafkaError):
            return  # an unreachable broker counts as empty
        for topic in response.responses:
            for each in topic.partitions:
                found[TopicPartition(topic.topic, each.partition_index), broker_id] = _fetched(each)

    await gather(partial(ask, broker_id, partitions) for broker_id, partitions in by_broker.items())
    return found


def _request(offsets: Mapping[TopicPartition, int], size: int, wait_ms: int) -> FetchRequest:
    topics: dict[str, list[FetchPartition]] = {}
    for (topic, partition), offset in offsets.items():
        asked = FetchPartition(partition=partition, fetch_offset=offset, log_start_offset=0, partition_max_bytes=size)
        topics.setdefault(topic, []).append(asked)
    return FetchRequest(
        replica_id=_DEBUGGING_CONSUMER,
        max_wait_ms=wait_ms,
        min_bytes=1,
        topics=[FetchTopic(topic=name, partitions=mine) for name, mine in topics.items()],
    )


def _fetched(data: PartitionData) -> _Fetched:
    headers, checksums = [], []
    for header, batch in iter_batches(memoryview(cast("bytes | memoryview", data.records or b""))):
        headers.append(header)
        checksums.append(int.from_bytes(batch[_CRC], "big"))
    return _Fetched(headers, checksums, data.high_watermark)
