"""`ottla transactions`: list and describe transactions, find those that hang, and abort them.

Counterpart in Kafka: kafka-transactions.sh.
"""

import time
from collections.abc import Sequence
from typing import Final

import click

from ottla.client.admin.transactions import (
    OpenTransaction,
    ProducerState,
    abort_transaction,
    describe_producers,
    describe_transactions,
    hanging_transactions,
    list_transactions,
    older_than,
    terminate_transaction,
)
from ottla.client.cluster import Client
from ottla.scripts.terminal.durations import duration_ms
from ottla.scripts.terminal.names import TOPIC_NAME
from ottla.scripts.terminal.options import DRY_RUN, YES, asks_cluster
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.partitions import Chosen, find_partitions, place, read_partitions
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition

_STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence",
)  # fmt: skip
_OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
_PARTITIONS: Final = click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITIONS]]...", type=TOPIC_NAME)
_PRODUCER: Final = (
    "producer_id", "producer_epoch", "last_sequence", "last_timestamp", "coordinator_epoch", "start_offset",
)  # fmt: skip
_LONGEST_TIMEOUT_MS: Final = 900_000
"""The default of a broker's transaction.max.timeout.ms."""


@click.group()
def transactions() -> None:
    """List and describe transactions, find those that hang, and abort them."""


@transactions.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(_STATES, case_sensitive=False),
    metavar="STATE",
    help="Only transactions in this state, such as Ongoing. May be given several times.",
)
@click.option(
    "--longer-than",
    type=duration_ms,
    default=-1,
    metavar="DURATION",
    help="Only transactions that are open for longer, such as 10m.",
)
@click.option("--regex", metavar="PATTERN", help="Only transactional ids that match, on brokers from Kafka 4.1 on.")
@asks_cluster
def list_command(session: Session, states: Sequence[str], longer_than: int, regex: str | None) -> None:
    """List transactional ids, with the coordinator of each, and the state of its last transaction."""
    session.run(_list, states, longer_than, regex)


async def _list(
    client: Client, session: Session, states: Sequence[str], longer_than_ms: int, regex: str | None
) -> None:
    if longer_than_ms >= 0 and not states:
        # A broker treats a transaction that never began as older than all others.
        states = _OPEN
    found = await list_transactions(client, states=states, longer_than_ms=longer_than_ms, pattern=regex)
    session.out.begin("transactional_id", "coordinator", "producer_id", "state")
    rows = [(each.transactional_id, broker, each) for broker, listings in found.items() for each in listings]
    for name, broker, each in sorted(rows):
        session.out.row(transactional_id=name, coordinator=broker, producer_id=each.producer_id, state=each.state)


@transactions.command()
@click.argument("transactional_ids", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@asks_cluster
def describe(session: Session, transactional_ids: Sequence[str]) -> None:
    """Describe the last transaction of each id: its state, its producer, and its partitions."""
    session.run(_describe, transactional_ids)


async def _describe(client: Client, session: Session, transactional_ids: Sequence[str]) -> None:
    session.out.begin(
        "transactional_id",
        "coordinator",
        "state",
        "producer_id",
        "producer_epoch",
        "timeout_ms",
        "start_time_ms",
        "partitions",
        *ERROR,
    )
    for name, found in (await describe_transactions(client, transactional_ids)).items():
        if isinstance(found, KafkaError):
            session.out.item(found, transactional_id=name)
        else:
            session.out.row(**{**found._asdict(), "partitions": sorted(map(str, found.partitions))})


@transactions.command()
@_PARTITIONS
@click.option("--broker", "broker_id", type=int, metavar="ID", help="Use the replicas on this broker, not the leaders.")
@asks_cluster
def producers(session: Session, partitions: Sequence[str], broker_id: int | None) -> None:
    """Describe the producers of partitions, and their open transactions.

    A partition is TOPIC:0 or TOPIC:0,3-5; TOPIC alone stands for all its partitions, and may be a shell pattern.
    """
    session.run(_producers, read_partitions(partitions), broker_id)


async def _producers(client: Client, session: Session, wanted: Sequence[Chosen], broker_id: int | None) -> None:
    session.out.begin("topic", "partition", *_PRODUCER, *ERROR)
    for partition, found in (await _remembered(client, wanted, broker_id)).items():
        if isinstance(found, KafkaError):
            session.out.item(found, **place(partition))
        else:
            for each in found:
                session.out.row(**place(partition), **each._asdict())


async def _remembered(
    client: Client, wanted: Sequence[Chosen], broker_id: int | None
) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
    """Return the producers of partitions (of the replicas on `broker_id`), and an error for each missing partition."""
    found = await find_partitions(client, wanted)
    results: dict[TopicPartition, list[ProducerState] | KafkaError] = {}
    there = []
    for partition, each in found.items():
        if isinstance(each, KafkaError):
            results[partition] = each
        elif broker_id is None or broker_id in each.replica_nodes:
            there.append(partition)
    results.update(await describe_producers(client, there, broker_id))
    return {partition: results[partition] for partition in sorted(results)}


@transactions.command("find-hanging")
@_PARTITIONS
@click.option("--broker", "broker_id", type=int, metavar="ID", help="Use the replicas on this broker, not the leaders.")
@click.option(
    "--older-than",
    type=duration_ms,
    default=_LONGEST_TIMEOUT_MS,
    metavar="DURATION",
    help="Only transactions without a record for this time. The default is 15m, the longest timeout.",
)
@asks_cluster
def find_hanging(session: Session, partitions: Sequence[str], broker_id: int | None, older_than: int) -> None:
    """Find transactions that are open in partitions but that no coordinator knows.

    Consumers of committed records cannot read past the start of such a transaction. Without TOPIC all topics are
    searched.
    """
    session.run(_find_hanging, read_partitions(partitions), broker_id, older_than)


async def _find_hanging(
    client: Client, session: Session, wanted: Sequence[Chosen], broker_id: int | None, age_ms: int
) -> None:
    remembered = await _remembered(client, wanted, broker_id)
    known = {partition: found for partition, found in remembered.items() if not isinstance(found, KafkaError)}
    candidates = older_than(known, age_ms, time.time_ns() // 1_000_000)
    session.out.begin("topic", "partition", *_PRODUCER, *ERROR)
    for partition, found in remembered.items():
        if isinstance(found, KafkaError):
            session.out.item(found, **place(partition))
    for each in await hanging_transactions(client, candidates):
        session.out.row(**place(each.partition), **each.producer._asdict())


@transactions.command()
@click.argument("partition", metavar="TOPIC:PARTITION", type=TOPIC_NAME)
@click.argument("start_offset", metavar="START_OFFSET", type=click.IntRange(min=0))
@DRY_RUN
@YES
@asks_cluster
def abort(session: Session, partition: str, start_offset: int, is_dry_run: bool, yes: bool) -> None:
    """Abort a hanging transaction in one partition, without its coordinator.

    `ottla transactions find-hanging` prints START_OFFSET. A transaction that a coordinator knows must be aborted by
    `ottla transactions terminate`, because this command would lose records of its producer.
    """
    (chosen,) = read_partitions([partition])
    if chosen.numbers is None or len(chosen.numbers) != 1:
        raise click.UsageError(f"{partition}: name one partition, such as {chosen.topic}:0")
    where = TopicPartition(chosen.topic, next(iter(chosen.numbers)))
    session.run(_abort, where, start_offset, is_dry_run, yes)


async def _abort(
    client: Client, session: Session, partition: TopicPartition, start_offset: int, is_dry_run: bool, yes: bool
) -> None:
    found = (await describe_producers(client, [partition]))[partition]
    if isinstance(found, KafkaError):
        raise found
    producer = next((each for each in found if each.start_offset == start_offset), None)
    if producer is None:
        text = f"no open transaction begins at offset {start_offset} of {partition}"
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)
    if not await hanging_transactions(client, [OpenTransaction(partition, producer)]):
        text = f"a coordinator knows the transaction of producer {producer.producer_id} in {partition}"
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, text)
    error = None
    if not session.dry_run(is_dry_run):
        question = f"Abort the transaction of producer {producer.producer_id} at offset {start_offset} of {partition}?"
        session.confirm(question, yes=yes)
        # 0, because before its first marker a producer has no coordinator epoch.
        epoch = producer.coordinator_epoch or 0
        error = await abort_transaction(client, partition, producer.producer_id, producer.producer_epoch, epoch)
    session.out.begin("topic", "partition", "producer_id", "producer_epoch", "start_offset", "aborted", *ERROR)
    session.out.item(
        error,
        **place(partition),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        start_offset=start_offset,
        aborted=error is None and not is_dry_run,
    )


@transactions.command()
@click.argument("transactional_ids", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@DRY_RUN
@YES
@asks_cluster
def terminate(session: Session, transactional_ids: Sequence[str], is_dry_run: bool, yes: bool) -> None:
    """Fence the producers of ids: their open transactions are aborted, and the producers must end."""
    session.run(_terminate, transactional_ids, is_dry_run, yes)


async def _terminate(
    client: Client, session: Session, transactional_ids: Sequence[str], is_dry_run: bool, yes: bool
) -> None:
    # Ids are checked first, because fencing an id that does not exist would create it.
    described = await describe_transactions(client, transactional_ids)
    there = [name for name, found in described.items() if not isinstance(found, KafkaError)]
    if not session.dry_run(is_dry_run) and there:
        session.confirm(f"Fence the producers of {', '.join(there)}?", yes=yes)
    session.out.begin("transactional_id", "state", "terminated", *ERROR)
    for name, found in described.items():
        if isinstance(found, KafkaError):
            session.out.item(found, transactional_id=name, terminated=False)
            continue
        error = None if is_dry_run else await terminate_transaction(client, name)
        terminated = error is None and not is_dry_run
        session.out.item(error, transactional_id=name, state=found.state, terminated=terminated)
