"""DescribeClientQuotas: the quotas set for users, client ids and addresses.

0   the first form
1   flexible
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Float64, Int8, Int16, Int32, String


class ComponentData(Struct):
    """One part of an entity to match: type 0 by name, 1 the default, 2 any that is named."""

    entity_type: String
    match_type: Int8
    match: Annotated[String | None, V(nullable="0+")]


class DescribeClientQuotasRequest(Request, api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    """Describe quotas; `strict` leaves out entities with parts that no component names."""

    components: Sequence[ComponentData]
    strict: Bool


class EntityData(Struct):
    """One part of an entity, such as its user; a null name is the default for all."""

    entity_type: String
    entity_name: Annotated[String | None, V(nullable="0+")]


class ValueData(Struct):
    """A quota."""

    key: String
    value: Float64


class EntryData(Struct):
    """An entity and its quotas."""

    entity: Sequence[EntityData]
    values: Sequence[ValueData]


class DescribeClientQuotasResponse(Response, api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    """The quotas."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    entries: Annotated[Sequence[EntryData] | None, V(nullable="0+")]
