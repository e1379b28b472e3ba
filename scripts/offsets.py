"""`ottla offsets`: the first and the next offset of partitions, or the offset of a time.

Counterpart in Kafka: kafka-get-offsets.sh.
"""

import time
from collections.abc import Sequence
from typing import Final

import click

from ottla.client.admin.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, led, list_offsets
from ottla.client.cluster import Client
from ottla.scripts.terminal.names import TOPIC_NAME
from ottla.scripts.terminal.options import asks_cluster
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.partitions import Chosen, find_partitions, place, read_partitions
from ottla.scripts.terminal.records.ranges import read_point
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import KafkaError

_NAMED: Final = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}


@click.command()
@click.argument("partitions", nargs=-1, required=True, metavar="TOPIC[:P]...", type=TOPIC_NAME)
@click.option(
    "--at",
    default="latest",
    show_default=True,
    metavar="earliest|latest|max-timestamp|TIME",
    help="The offset to print. TIME is a date, milliseconds, or a duration ago such as 1h30m, and stands for the first "
    "record at or after it.",
)
@asks_cluster
def offsets(session: Session, partitions: Sequence[str], at: str) -> None:
    """Print offsets of partitions: the first one, the next one, or that of a time.

    A partition without a record at or after TIME has no offset.
    """
    timestamp = _NAMED.get(at)
    if timestamp is None:
        timestamp = read_point(f"@{at.removeprefix('@')}", round(time.time() * 1000)).time_ms
    if timestamp is None:
        raise click.UsageError(f"--at {at}: use earliest, latest, max-timestamp or a time")
    session.run(_offsets, read_partitions(partitions), timestamp)


async def _offsets(client: Client, session: Session, wanted: Sequence[Chosen], timestamp: int) -> None:
    known = await find_partitions(client, wanted)
    # Partitions without a leader are left out, because their requests would wait for one.
    asked, refused = await led(client, [each for each, it in known.items() if not isinstance(it, KafkaError)])
    found = await list_offsets(client, dict.fromkeys(asked, timestamp))
    session.out.begin("topic", "partition", "offset", "timestamp", "leader_epoch", *ERROR)
    for partition, described in known.items():
        result = described if isinstance(described, KafkaError) else refused.get(partition) or found[partition]
        if isinstance(result, KafkaError):
            session.out.item(result, **place(partition))
            continue
        values = {name: None if each < 0 else each for name, each in result._asdict().items()}
        session.out.item(None, **place(partition), **values)
