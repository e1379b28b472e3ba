"""`ottla log-dirs`: the log directories of brokers, and their replicas.

Counterpart in Kafka: kafka-log-dirs.sh.
"""

from collections.abc import Sequence
from typing import Any

import click

from ottla.client.admin.log_dirs import LogDir, StoredReplica, describe_log_dirs
from ottla.client.cluster import Client
from ottla.scripts.terminal.names import TOPIC_NAME
from ottla.scripts.terminal.options import asks_cluster
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.partitions import read_brokers
from ottla.scripts.terminal.patterns import chosen
from ottla.scripts.terminal.progress import sized
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import KafkaError


@click.command("log-dirs")
@click.argument("patterns", nargs=-1, metavar="[TOPIC]...", type=TOPIC_NAME)
@click.option("--brokers", metavar="1,2", help="Only these brokers.")
@click.option("--replicas", "shows_replicas", is_flag=True, help="A row for each replica, the largest first.")
@asks_cluster
def log_dirs(session: Session, patterns: Sequence[str], brokers: str | None, shows_replicas: bool) -> None:
    """Describe the log directories of brokers.

    A row has the size of the replicas in a directory, and the count of its future replicas. A future replica replaces
    one of another directory of the same broker when its lag is 0. With TOPIC only replicas of matching topics count.
    """
    session.run(_log_dirs, patterns, None if brokers is None else read_brokers(brokers), shows_replicas)


async def _log_dirs(
    client: Client, session: Session, patterns: Sequence[str], brokers: Sequence[int] | None, shows_replicas: bool
) -> None:
    await client.metadata(())
    found = await describe_log_dirs(client, sorted(client.nodes) if brokers is None else brokers)
    if shows_replicas:
        session.out.begin("broker_id", "log_dir", "topic", "partition", "size_bytes", "offset_lag", "is_future", *ERROR)
    else:
        session.out.begin(
            *("broker_id", "log_dir", "replicas", "size_bytes", "future_replicas", "max_offset_lag"),
            *("total_bytes", "usable_bytes", *ERROR),
        )
    count = size = 0
    for broker_id, directories in found.items():
        if isinstance(directories, KafkaError):
            session.out.item(directories, broker_id=broker_id)
            continue
        for directory in sorted(directories, key=lambda it: it.path):
            replicas = _matching(directory, patterns)
            count, size = count + len(replicas), size + sum(each.size for each in replicas)
            _print(session, broker_id, directory, replicas, shows_replicas)
    if session.out.form == "table":
        session.say(f"{count} replica{'' if count == 1 else 's'}, {sized(size)}")


def _matching(directory: LogDir, patterns: Sequence[str]) -> list[StoredReplica]:
    topics = set(chosen({each.partition.topic for each in directory.replicas}, patterns))
    return [each for each in directory.replicas if each.partition.topic in topics]


def _print(
    session: Session, broker_id: int, directory: LogDir, replicas: Sequence[StoredReplica], shows_replicas: bool
) -> None:
    place: dict[str, Any] = {"broker_id": broker_id, "log_dir": directory.path}
    if shows_replicas and directory.error is None:
        for each in sorted(replicas, key=lambda it: (-it.size, it.partition)):
            session.out.row(
                **place,
                topic=each.partition.topic,
                partition=each.partition.partition,
                size_bytes=each.size,
                offset_lag=each.offset_lag,
                is_future=each.is_future,
            )
        return
    if not shows_replicas and directory.error is None:
        place |= {
            "replicas": len(replicas),
            "size_bytes": sum(each.size for each in replicas),
            "future_replicas": sum(each.is_future for each in replicas),
            "max_offset_lag": max((each.offset_lag for each in replicas), default=0),
            "total_bytes": directory.total_bytes,
            "usable_bytes": directory.usable_bytes,
        }
    session.out.item(directory.error, **place)
