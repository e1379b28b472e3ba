"""`ottla api-versions`: the request versions of each broker, and the differences between brokers.

Counterpart in Kafka: kafka-broker-api-versions.sh.
"""

from collections.abc import Mapping

import click

from ottla.client.cluster import Client
from ottla.client.connection import VersionRange
from ottla.client.errors import ClientError
from ottla.scripts.terminal.options import asks_cluster
from ottla.scripts.terminal.output import ERROR
from ottla.scripts.terminal.session import Session
from ottla.wire.api_keys import ApiKey

Offered = Mapping[int, VersionRange]


@click.command("api-versions")
@click.option(
    "--diff", "shows_differences", is_flag=True, help="List only requests whose versions differ between brokers."
)
@asks_cluster
def api_versions(session: Session, shows_differences: bool) -> None:
    """List the requests that brokers understand, or where brokers differ."""
    session.run(_compare if shows_differences else _list)


async def _offered(client: Client, session: Session) -> dict[int, Offered]:
    """Return the versions of each broker; a broker that cannot be reached gets a row with the error."""
    await client.metadata(())
    found: dict[int, Offered] = {}
    for broker_id in sorted(client.nodes):
        try:
            found[broker_id] = (await client.connection(broker_id)).api_versions
        except ClientError as error:
            session.out.row(broker=broker_id, error=type(error).__name__.removesuffix("Error"), message=str(error))
    return found


async def _list(client: Client, session: Session) -> None:
    session.out.begin("broker", "api", "key", "lowest", "highest", *ERROR)
    for broker_id, offered in (await _offered(client, session)).items():
        for key, versions in sorted(offered.items()):
            session.out.row(broker=broker_id, api=_name(key), key=key, lowest=versions.lowest, highest=versions.highest)


async def _compare(client: Client, session: Session) -> None:
    session.out.begin("broker", "api", "key", "versions", *ERROR)
    found = await _offered(client, session)
    for key in sorted({key for offered in found.values() for key in offered}):
        shown = {broker_id: _versions(offered.get(key)) for broker_id, offered in found.items()}
        if len(set(shown.values())) > 1:
            for broker_id, versions in shown.items():
                session.out.row(broker=broker_id, api=_name(key), key=key, versions=versions)


def _name(key: int) -> str | None:
    return ApiKey(key).name.title().replace("_", "") if key in ApiKey._value2member_map_ else None


def _versions(offered: VersionRange | None) -> str | None:
    return None if offered is None else f"{offered.lowest}-{offered.highest}"
