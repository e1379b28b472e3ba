"""`ottla cluster`: a cluster's id and brokers, and unregistering brokers; `up` runs a cluster on this machine.

Counterpart in Kafka: kafka-cluster.sh.
"""

import click

from ottla.client.admin.cluster import describe_cluster, knows_fenced, unregister_broker
from ottla.client.cluster import Client
from ottla.scripts.terminal.commands import Late, LateGroup
from ottla.scripts.terminal.options import DRY_RUN, YES, asks_cluster
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.session import Session
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest

_UP = Late("ottla.commands.cluster_command", "up", "Run a ZooKeeper and brokers on this machine.")


@click.group(cls=LateGroup, late={"up": _UP})
def cluster() -> None:
    """Show a cluster and its brokers, or run one on this machine."""


@cluster.command("id")
@asks_cluster
def id_command(session: Session) -> None:
    """Print the cluster's id."""
    session.run(_id)


async def _id(client: Client, session: Session) -> None:
    found = await describe_cluster(client)
    session.out.begin("cluster_id")
    session.out.row(cluster_id=found.cluster_id)


@cluster.command()
@asks_cluster
def brokers(session: Session) -> None:
    """List the brokers, and fenced ones if the cluster returns them.

    A fenced broker is registered but does not serve: it is starting, stopping, or gone. Without ZooKeeper, the
    controller is the broker that forwards requests to the controllers.
    """
    session.run(_brokers)


async def _brokers(client: Client, session: Session) -> None:
    found = await describe_cluster(client, fenced=await knows_fenced(client))
    session.out.begin("broker", "host", "port", "rack", "fenced", "controller")
    for each in sorted(found.brokers):
        session.out.row(
            broker=each.id,
            host=each.host,
            port=each.port,
            rack=each.rack,
            fenced=each.is_fenced,
            controller=each.id == found.controller_id,
        )


@cluster.command()
@click.argument("broker", type=click.IntRange(min=0))
@DRY_RUN
@YES
@asks_cluster
def unregister(session: Session, broker: int, is_dry_run: bool, yes: bool) -> None:
    """Unregister the broker with the id BROKER, which is gone for good.

    Only a cluster without ZooKeeper keeps the registrations of brokers that are gone.
    """
    session.run(_unregister, broker, is_dry_run, yes)


async def _unregister(client: Client, session: Session, broker: int, is_dry_run: bool, yes: bool) -> None:
    error = None
    try:
        if session.dry_run(is_dry_run):
            await _check_registered(client, broker)
        else:
            session.confirm(f"Unregister broker {broker}? Its replicas stay assigned to it and are lost.", yes=yes)
            await unregister_broker(client, broker)
    except KafkaError as refused:
        error = refused
    session.out.begin("broker", "unregistered", *ERROR)
    session.out.item(error, broker=broker, unregistered=error is None and not is_dry_run)


async def _check_registered(client: Client, broker: int) -> None:
    """Raise KafkaError for an unknown broker, UnsupportedRequestError if the cluster has no such request."""
    (await client.connection()).version_of(UnregisterBrokerRequest)
    found = await describe_cluster(client, fenced=await knows_fenced(client))
    if broker not in {each.id for each in found.brokers}:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
