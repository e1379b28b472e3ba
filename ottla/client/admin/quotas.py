"""Quotas of users, client ids and addresses.

Owns the names of entity types and quotas. Must not know which quota a broker applies.
Counterparts in Kafka: ClientQuotaEntity, ClientQuotaFilter, QuotaConfig.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.cluster import ANY, Client, check, kafka_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import alter_client_quotas as altering
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
USER_QUOTAS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
"""Quotas of users and client ids."""
IP_QUOTAS: Final = ("connection_creation_rate",)
_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


class Part(NamedTuple):
    """One part of an entity: a user, a client id or an address. Without a name: the default."""

    type: str
    name: str | None


Entity = frozenset[Part]
"""The entity of quotas: a user, a client id, both, or an address."""


class Wanted(NamedTuple):
    """A filter of parts: one with this name, the default (None), or any of its type."""

    type: str
    name: str | None = None
    is_any: bool = False


async def describe_quotas(
    client: Client, wanted: Iterable[Wanted] = (), *, strict: bool = False
) -> dict[Entity, dict[str, float]]:
    """Return the quotas of entities with these parts; `strict`: and without other parts. Without filter: all."""
    components = [
        ComponentData(
            entity_type=each.type,
            match_type=_ANY if each.is_any else _DEFAULT if each.name is None else _EXACT,
            match=None if each.is_any else each.name,
        )
        for each in wanted
    ]
    request = DescribeClientQuotasRequest(components=components, strict=strict)
    response = await client.ask(request, ANY, DescribeClientQuotasResponse)
    check(response.error_code, response.error_message)
    return {
        frozenset(Part(each.entity_type, each.entity_name) for each in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in response.entries or ()
    }


async def alter_quotas(
    client: Client, changes: Mapping[Entity, Mapping[str, float | None]], *, validate_only: bool = False
) -> dict[Entity, KafkaError | None]:
    """Set quotas of entities; remove those whose value is None."""
    request = altering.AlterClientQuotasRequest(
        entries=[altering.EntryData(entity=_parts(entity), ops=_operations(changes[entity])) for entity in changes],
        validate_only=validate_only,
    )
    response = await client.ask(request, ANY, altering.AlterClientQuotasResponse)
    return {
        frozenset(Part(each.entity_type, each.entity_name) for each in entry.entity): None
        if entry.error_code == ErrorCode.NONE
        else kafka_error(entry.error_code, entry.error_message)
        for entry in response.entries
    }


def _parts(entity: Entity) -> list[altering.EntityData]:
    return [altering.EntityData(entity_type=each.type, entity_name=each.name) for each in sorted(entity, key=str)]


def _operations(quotas: Mapping[str, float | None]) -> Sequence[altering.OpData]:
    return [altering.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()]
