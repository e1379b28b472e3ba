"""The options of `ottla cluster up`. The other commands of `ottla cluster` are in `scripts/cluster.py`."""

import os
import sys
from pathlib import Path

import click

from ottla.commands.options import pair


@click.command()
@click.option(
    "--brokers",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    metavar="COUNT",
    help="Start this number of brokers.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    metavar="PORT",
    help="The first broker listens on this port, the others on the ports after it. With 0 each takes a free port.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("data/cluster"),
    show_default=True,
    metavar="DIR",
    help="Keep all data in this directory; the next cluster there continues with it.",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT",
    help="Use this running ZooKeeper. Without this option the command starts one with java.",
)
@click.option(
    "--zookeeper-jars",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Start ZooKeeper from the jars in this directory. Without this option mvn fetches them, once.",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one of Kafka's keys for all brokers. May be given several times.",
)
def up(
    brokers: int,
    port: int,
    data: Path,
    zookeeper: str | None,
    zookeeper_jars: Path | None,
    overrides: tuple[str, ...],
) -> None:
    """Run a ZooKeeper and brokers on this machine.

    The command shows their state, and stops them on SIGTERM or SIGINT.
    """
    pairs = dict(pair(override) for override in overrides)
    from ottla.commands import local_cluster
    from ottla.commands.zookeeper_process import cache_folder

    cache = cache_folder(os.environ)
    sys.exit(local_cluster.up(local_cluster.Plan(brokers, port, data, zookeeper, zookeeper_jars, cache, pairs)))
