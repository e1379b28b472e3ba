"""kafka-transactions: list and describe transactions, and abort those that hang.

Counterpart: org.apache.kafka.tools.TransactionsCommand.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ottla.client.admin.topics import describe_in_pages
from ottla.client.admin.transactions import (
    OpenTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    abort_transaction,
    describe_producers,
    describe_transactions,
    hanging_transactions,
    list_transactions,
    older_than,
    terminate_transaction,
)
from ottla.client.cluster import TRANSACTION, Client
from ottla.client.errors import UnsupportedRequestError
from ottla.scripts.kafka.calls import asked
from ottla.scripts.kafka.face import Face, JavaError, ToolExit, as_java, execution
from ottla.scripts.kafka.java.hashes import hash_order, partition_hash
from ottla.scripts.kafka.java.numbers import INTEGER, LONG, SHORT
from ottla.scripts.kafka.subcommands import Argument, Parser, argument
from ottla.scripts.kafka.tools.metadata_quorum import table
from ottla.wire.api_keys import ApiKey
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

_MINUTE_MS: Final = 60_000
_STATES: Final = (
    "Ongoing", "PrepareAbort", "PrepareCommit", "CompleteAbort", "CompleteCommit", "Empty", "PrepareEpochFence",
)  # fmt: skip
_NO_PATTERNS: Final = (
    "Transactional ID pattern filter can be set only when using API version 2 or higher. If client is connected to an "
    "older broker, do not specify the pattern filter."
)
_TOPIC: Final = argument("--topic", help="The topic.", is_required=True)
_PARTITION: Final = argument("--partition", help="The partition.", type=INTEGER, is_required=True)


def _parser(face: Face) -> Parser:
    duration = argument("--duration-filter", help="Only transactions that are open for more milliseconds.", type=LONG)
    pattern = argument("--transactional-id-pattern", help="Only ids that match this regular expression.")
    commands = [
        Parser("list", "List transactions.", [duration] if face.is_3_9 else [duration, pattern]),
        Parser(
            "describe",
            "Describe the state of a transactional id.",
            [argument("--transactional-id", help="The transactional id.", is_required=True)],
        ),
        Parser(
            "describe-producers",
            "Describe the producers that a partition remembers.",
            [argument("--broker-id", help="Ask this broker, not the leader.", type=INTEGER), _TOPIC, _PARTITION],
        ),
        Parser("abort", "Abort a hanging transaction in a partition.", [_TOPIC, _PARTITION, *_OF_TRANSACTION]),
        Parser(
            "find-hanging",
            "Find transactions of which no coordinator knows.",
            [
                argument("--broker-id", help="Look at the partitions on this broker.", type=INTEGER),
                argument(
                    "--max-transaction-timeout", help="Minutes that a transaction may take.", type=INTEGER, default=15
                ),
                argument("--topic", help="Look at this topic."),
                argument("--partition", help="Look at this partition of --topic.", type=INTEGER),
            ],
        ),
    ]
    if not face.is_3_9:
        identity = argument("--transactionalId", help="The transactional id.", is_required=True)
        commands.append(Parser("forceTerminateTransaction", "Fence the producer of a transactional id.", [identity]))
    options = [
        argument("-v", "--version", help="Print the version and end.", action="version"),
        argument("--command-config", help="A file of client properties.", metavar="FILE"),
        argument("--bootstrap-server", help="The brokers to ask.", metavar="host:port", is_required=True),
    ]
    about = "Look at the transactions of producers, and end those that hang."
    version = face.release.build
    return Parser("kafka-transactions.sh", about, options, commands, commands_metavar="COMMAND", version=version)


_OF_TRANSACTION: Final[Sequence[Argument]] = (
    argument("--start-offset", help="Where the transaction begins; brokers from 3.0 on need no more.", type=LONG),
    argument("--producer-id", help="The producer's id, for older brokers.", type=LONG),
    argument("--producer-epoch", help="The producer's epoch, for older brokers.", type=SHORT),
    argument("--coordinator-epoch", help="The coordinator's epoch, for older brokers.", type=INTEGER),
)


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    values = _parser(face).parse_or_exit(arguments, face)
    file = values["command_config"]
    if file is not None and not Path(file).exists():
        missing = JavaError("java.nio.file.NoSuchFileException", file)
        raise _failed(face, "Failed to load admin client properties", missing)
    try:
        config = face.config(values["bootstrap_server"], file)
    except ConfigError as error:
        cause = JavaError("org.apache.kafka.common.config.ConfigException", str(error))
        text = "Failed to create new KafkaAdminClient"
        raise JavaError("org.apache.kafka.common.KafkaException", text, cause) from None
    face.with_client(config, _WORK[values["command"]], values, face)
    return 0


def _failed(face: Face, message: str, error: JavaError | None = None) -> ToolExit:
    """Print an error and return the ToolExit."""
    cause = error and (error.cause or error)
    face.complain(f"{message}: {cause.message}. Enable debug logging for additional detail." if cause else message)
    return ToolExit(1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _print_table(face: Face, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    for line in table([headings, *([str(cell) for cell in row] for row in rows)]):
        face.print(line)


# list, describe


async def _list(client: Client, values: Mapping[str, Any], face: Face) -> None:
    duration, pattern = values["duration_filter"], values.get("transactional_id_pattern") or None

    async def work() -> dict[int, list[TransactionListing]]:
        try:
            return await list_transactions(client, longer_than_ms=-1 if duration is None else duration, pattern=pattern)
        except KafkaError as error:
            text = f"ListTransactions request sent to {error.detail} failed with an unexpected exception"
            raise KafkaError(error.code, text) from None
        except UnsupportedRequestError:
            if pattern is None or ApiKey.LIST_TRANSACTIONS not in (await client.connection()).api_versions:
                raise
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, _NO_PATTERNS) from None

    try:
        found = await asked(client, "listTransactions(api=METADATA)", work, seconds=None)
    except JavaError as error:
        raise _failed(face, "Failed to list transactions", error) from None
    rows = [
        (each.transactional_id, broker, each.producer_id, _state(each.state))
        for broker, listings in found.items()
        for each in listings
    ]
    _print_table(face, ("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows)


def _state(name: str) -> str:
    return name if name in _STATES else "Unknown"


async def _describe(client: Client, values: Mapping[str, Any], face: Face) -> None:
    transactional_id = values["transactional_id"]

    async def work() -> TransactionDescription:
        await _find_coordinator(client, transactional_id)
        result = (await describe_transactions(client, [transactional_id]))[transactional_id]
        if isinstance(result, KafkaError):
            raise KafkaError(result.code, _of_description(transactional_id, result))
        return result

    try:
        found = await asked(client, "describeTransactions(api=FIND_COORDINATOR)", work, seconds=None)
    except JavaError as error:
        message = f"Failed to describe transaction state of transactional-id `{transactional_id}`"
        raise _failed(face, message, error) from None
    start = found.start_time_ms
    headings = (
        "CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions",
    )  # fmt: skip
    row = (
        found.coordinator,
        transactional_id,
        found.producer_id,
        found.producer_epoch,
        _state(found.state),
        found.timeout_ms,
        "None" if start is None else start,
        "None" if start is None else _now_ms() - start,
        ",".join(map(str, _in_hash_order(found.partitions))),
    )
    _print_table(face, headings, [row])


async def _find_coordinator(client: Client, transactional_id: str) -> None:
    """Find the coordinator first, because Kafka's client has another message for that failure."""
    try:
        await client.find_coordinators(TRANSACTION, [transactional_id])
    except KafkaError as error:
        key = f"`CoordinatorKey(idValue='{transactional_id}', type=TRANSACTION)`"
        text = f"FindCoordinator request for key {key} failed due to an unexpected error"
        if error.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            text = f"FindCoordinator request for transactionalId {key} failed due to authorization failure"
        raise KafkaError(error.code, text) from None


def _of_description(transactional_id: str, error: KafkaError) -> str:
    """Return the message of Kafka's client for an error of a description."""
    reason = {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "failed due to authorization failure",
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "failed because the ID could not be found",
    }.get(error.code, "failed due to unexpected error")
    return f"DescribeTransactions request for transactionalId `{transactional_id}` {reason}"


def _in_hash_order(partitions: Sequence[TopicPartition], capacity: int | None = None) -> list[TopicPartition]:
    return [partitions[at] for at in hash_order((partition_hash(*each) for each in partitions), capacity)]


# Producers


async def _producers(
    client: Client, partitions: Sequence[TopicPartition], broker_id: int | None
) -> dict[TopicPartition, list[ProducerState]]:
    """Return the producers of each partition. JavaError in the words of Kafka's client."""

    async def work() -> dict[TopicPartition, list[ProducerState]]:
        found = {}
        for partition, result in (await describe_producers(client, partitions, broker_id)).items():
            if isinstance(result, KafkaError):
                raise KafkaError(result.code, _of_producers(partition, broker_id, result))
            found[partition] = result
        return found

    return await asked(client, "describeProducers(api=DESCRIBE_PRODUCERS)", work, seconds=None)


def _of_producers(partition: TopicPartition, broker_id: int | None, error: KafkaError) -> str:
    described = f"Failed to describe active producers for partition {partition}"
    match error.code:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return _without_metadata(partition)
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return f"{described} due to authorization failure on topic `{partition.topic}`"
        case ErrorCode.INVALID_TOPIC_EXCEPTION:
            return f"Failed to fetch metadata for partition {partition} due to invalid topic `{partition.topic}`"
        case ErrorCode.NOT_LEADER_OR_FOLLOWER if broker_id is not None:
            return f"{described} on brokerId {broker_id}"
    return f"{described} due to unexpected error"


def _without_metadata(partition: TopicPartition) -> str:
    return (
        f"Failed to fetch metadata for partition {partition} because metadata for topic `{partition.topic}` could not "
        "be found"
    )


async def _describe_producers(client: Client, values: Mapping[str, Any], face: Face) -> None:
    partition, broker_id = TopicPartition(values["topic"], values["partition"]), values["broker_id"]
    try:
        found = (await _producers(client, [partition], broker_id))[partition]
    except JavaError as error:
        where = "leader" if broker_id is None else f"broker {broker_id}"
        raise _failed(face, f"Failed to describe producers for partition {partition} on {where}", error) from None
    headings = (
        "ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
        "CurrentTransactionStartOffset",
    )  # fmt: skip
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            -1 if each.coordinator_epoch is None else each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            "None" if each.start_offset is None else each.start_offset,
        )
        for each in found
    ]
    _print_table(face, headings, rows)


# find-hanging


async def _find_hanging(client: Client, values: Mapping[str, Any], face: Face) -> None:
    broker_id, topic, partition = values["broker_id"], values["topic"], values["partition"]
    if topic is None and broker_id is None:
        message = "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        raise _failed(face, message)
    if partition is not None and topic is None:
        raise _failed(face, "The --partition argument requires --topic to be provided")
    partitions = [TopicPartition(topic, partition)]
    if partition is None:
        partitions = await _partitions(client, topic, broker_id, face)
    try:
        producers = await _producers(client, partitions, broker_id) if partitions else {}
    except JavaError as error:
        where = "Optional.empty" if broker_id is None else f"Optional[{broker_id}]"
        message = f"Failed to describe producers for {len(partitions)} partitions on broker {where}"
        raise _failed(face, message, error) from None
    ordered = {each: producers[each] for each in _in_hash_order(list(producers), len(producers))}
    candidates = older_than(ordered, values["max_transaction_timeout"] * _MINUTE_MS, _now_ms())
    found = await _hanging(client, candidates, face)
    headings = (
        "Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp",
        "Duration(min)",
    )  # fmt: skip
    _print_table(face, headings, [_hanging_row(each) for each in found])


async def _partitions(client: Client, topic: str | None, broker_id: int | None, face: Face) -> list[TopicPartition]:
    """Return the partitions of a topic, or of all topics; with `broker_id` only those with a replica on it."""
    names = [topic] if topic else [each.name or "" for each in (await client.metadata(None)).topics]
    try:
        described = await asked(client, "describeTopics", partial(describe_in_pages, client, names), seconds=None)
        for each in described.values():
            if isinstance(each, KafkaError):
                raise execution(as_java(each))
    except JavaError as error:
        raise _failed(face, f"Failed to describe {len(names)} topics", error) from None
    return [
        TopicPartition(name, each.partition)
        for name, found in described.items()
        if not isinstance(found, KafkaError)
        for each in found.partitions
        if broker_id is None or broker_id in each.replicas
    ]


async def _hanging(client: Client, candidates: Sequence[OpenTransaction], face: Face) -> list[OpenTransaction]:
    ids = [each.producer.producer_id for each in candidates]
    distinct = list(dict.fromkeys(ids))
    try:
        work = partial(hanging_transactions, client, candidates)
        found = await asked(client, "listTransactions(api=METADATA)", work, seconds=None)
    except JavaError as error:
        raise _failed(face, f"Failed to list transactions for {len(distinct)} producers", error) from None
    # Java's hash code of a long.
    ordered = [distinct[at] for at in hash_order((each ^ each >> 32) & 0xFFFFFFFF for each in distinct)]
    return [each for producer_id in ordered for each in found if each.producer.producer_id == producer_id]


def _hanging_row(found: OpenTransaction) -> Sequence[object]:
    producer = found.producer
    return (
        found.partition.topic,
        found.partition.partition,
        producer.producer_id,
        producer.producer_epoch,
        -1 if producer.coordinator_epoch is None else producer.coordinator_epoch,
        -1 if producer.start_offset is None else producer.start_offset,
        producer.last_timestamp,
        (_now_ms() - producer.last_timestamp) // _MINUTE_MS,
    )


# abort, forceTerminateTransaction


async def _abort(client: Client, values: Mapping[str, Any], face: Face) -> None:
    partition = TopicPartition(values["topic"], values["partition"])
    start_offset, producer_id = values["start_offset"], values["producer_id"]
    if start_offset is not None:
        producer = await _producer_of(client, partition, start_offset, face)
        identity = (producer.producer_id, producer.producer_epoch, producer.coordinator_epoch or 0)
    elif producer_id is None:
        raise _failed(
            face,
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)",
        )
    else:
        for name in ("producer_epoch", "coordinator_epoch"):
            if values[name] is None:
                raise _failed(face, f"Missing required argument --{name.replace('_', '-')}")
        identity = (producer_id, values["producer_epoch"], max(0, values["coordinator_epoch"]))
    shown = (
        f"AbortTransactionSpec(topicPartition={partition}, producerId={identity[0]}, producerEpoch={identity[1]}, "
        f"coordinatorEpoch={identity[2]})"
    )

    async def work() -> None:
        error = await abort_transaction(client, partition, *identity)
        if error is not None:
            raise KafkaError(error.code, _of_marker(partition, shown, identity[2], error))

    try:
        await asked(client, "abortTransaction(api=METADATA)", work, seconds=None)
    except JavaError as error:
        raise _failed(face, f"Failed to abort transaction {shown}", error) from None


async def _producer_of(client: Client, partition: TopicPartition, start_offset: int, face: Face) -> ProducerState:
    try:
        producers = (await _producers(client, [partition], None))[partition]
    except JavaError as error:
        raise _failed(face, f"Failed to validate producer state for partition {partition}", error) from None
    found = next((each for each in producers if each.start_offset == start_offset), None)
    if found is None:
        message = f"Could not find any open transactions starting at offset {start_offset} on partition {partition}"
        raise _failed(face, message)
    return found


def _of_marker(partition: TopicPartition, shown: str, coordinator_epoch: int, error: KafkaError) -> str:
    match error.code:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return _without_metadata(partition)
        case ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            reason = "failed due to cluster authorization error"
        case ErrorCode.INVALID_PRODUCER_EPOCH:
            reason = "failed due an invalid producer epoch"
        case ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            reason = (
                f"failed since the provided coordinator epoch {coordinator_epoch} has been fenced by the active "
                "coordinator"
            )
        case _:
            reason = f"failed due to unexpected error: {as_java(KafkaError(error.code, '')).message}"
    return f"WriteTxnMarkers request with {shown} {reason}"


async def _terminate(client: Client, values: Mapping[str, Any], face: Face) -> None:
    transactional_id = values["transactionalId"]

    async def work() -> None:
        await _find_coordinator(client, transactional_id)
        error = await terminate_transaction(client, transactional_id)
        if error is not None:
            raise KafkaError(error.code, _of_fencing(transactional_id, error))

    try:
        await asked(client, "fenceProducer(api=FIND_COORDINATOR)", work, seconds=None)
    except JavaError as error:
        raise _failed(face, f"Failed to force terminate transactionalId `{transactional_id}`", error) from None


def _of_fencing(transactional_id: str, error: KafkaError) -> str:
    reason = {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "cluster authorization failure",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional ID authorization failure",
    }.get(error.code, "unexpected error")
    return f"InitProducerId request for transactionalId `{transactional_id}` failed due to {reason}"


_WORK: Final = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _terminate,
}
