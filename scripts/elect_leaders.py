"""`ottla elect-leaders`: elect leaders of partitions.

Counterpart in Kafka: kafka-leader-election.sh.
"""

from collections.abc import Sequence

import click

from ottla.client.admin import elections
from ottla.client.admin.elections import ElectionType
from ottla.client.cluster import Client
from ottla.scripts.terminal.names import TOPIC_NAME
from ottla.scripts.terminal.options import DRY_RUN, YES, asks_cluster
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.partitions import Chosen, find_partitions, place, read_partitions
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import MetadataResponsePartition
from ottla.wire.types import TopicPartition


@click.command("elect-leaders")
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:P]]...", type=TOPIC_NAME)
@click.option(
    "--unclean",
    is_flag=True,
    help="For partitions without a leader, elect a replica that is not in sync. Records that it lacks are lost.",
)
@DRY_RUN
@YES
@asks_cluster
def elect_leaders(session: Session, partitions: Sequence[str], unclean: bool, is_dry_run: bool, yes: bool) -> None:
    """Elect leaders of partitions.

    The first replica of each partition becomes its leader, if it is in sync. Without TOPIC all partitions are elected.
    """
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    session.run(_elect, read_partitions(partitions), kind, is_dry_run, yes)


async def _elect(
    client: Client, session: Session, wanted: Sequence[Chosen], kind: ElectionType, is_dry_run: bool, yes: bool
) -> None:
    known = await find_partitions(client, wanted)
    there = {each: found for each, found in known.items() if not isinstance(found, KafkaError)}
    needy = [each for each, found in there.items() if _needs(found, kind)]
    if not session.dry_run(is_dry_run) and needy and kind is ElectionType.UNCLEAN:
        names = ", ".join(map(str, needy[:5])) + (", ..." if len(needy) > 5 else "")
        session.confirm(f"Elect leaders that are not in sync for {names}? Records may be lost.", yes=yes)
    results: dict[TopicPartition, KafkaError | None] = {}
    if needy and not is_dry_run:
        results = await elections.elect_leaders(client, kind, needy)
    session.out.begin("topic", "partition", "leader", "elected", *ERROR)
    for partition, found in known.items():
        if isinstance(found, KafkaError):
            session.out.item(found, **place(partition), elected=False)
        elif partition in needy or wanted:
            elected = partition in results and results[partition] is None
            leader = await _leader(client, partition, found, elected, kind)
            session.out.item(_failure(results.get(partition)), **place(partition), leader=leader, elected=elected)


def _failure(error: KafkaError | None) -> KafkaError | None:
    return None if error is not None and error.code == ErrorCode.ELECTION_NOT_NEEDED else error


async def _leader(
    client: Client, partition: TopicPartition, before: MetadataResponsePartition, elected: bool, kind: ElectionType
) -> int | None:
    """Return the leader of a partition after the election."""
    if not elected:
        return None if before.leader_id < 0 else before.leader_id
    if kind is ElectionType.PREFERRED:
        return before.replica_nodes[0]
    leader = (await client.leaders([partition]))[partition]
    return None if isinstance(leader, KafkaError) else leader


def _needs(partition: MetadataResponsePartition, kind: ElectionType) -> bool:
    """Whether an election may change the leader."""
    if kind is ElectionType.UNCLEAN:
        return partition.leader_id < 0
    return bool(partition.replica_nodes) and partition.leader_id != partition.replica_nodes[0]
