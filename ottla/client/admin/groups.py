"""Groups of every type: listing them.

Counterparts in Kafka: KafkaAdminClient's group methods, GroupListing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.client.cluster import Client, check
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


class GroupListing(NamedTuple):
    """A group. State and type are None where the broker is too old to tell."""

    group_id: str
    protocol_type: str
    state: str | None
    type: str | None


async def list_groups(client: Client, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
    """Return the groups of all brokers."""
    if not client.nodes:
        await client.metadata(())
    lowest = 5 if types else 4 if states else 0
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    found: dict[str, GroupListing] = {}
    for broker_id in list(client.nodes):
        response = await client.ask(request, broker_id, ListGroupsResponse, lowest=lowest)
        check(response.error_code)
        for each in response.groups:
            listing = GroupListing(each.group_id, each.protocol_type, each.group_state or None, each.group_type or None)
            found.setdefault(each.group_id, listing)
    return list(found.values())
