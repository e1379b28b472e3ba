"""AlterClientQuotas: set or remove quotas of users, client ids and addresses.

0   the first form
1   flexible
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Float64, Int16, Int32, String


class EntityData(Struct):
    """One part of an entity, such as its user; a null name is the default for all."""

    entity_type: String
    entity_name: Annotated[String | None, V(nullable="0+")]


class OpData(Struct):
    """A quota to set or to remove."""

    key: String
    value: Float64
    remove: Bool


class EntryData(Struct):
    """An entity and the changes of its quotas."""

    entity: Sequence[EntityData]
    ops: Sequence[OpData]


class AlterClientQuotasRequest(Request, api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    """Alter quotas, or only say whether they could be altered."""

    entries: Sequence[EntryData]
    validate_only: Bool


class EntryDataResult(Struct, kafka_name="EntryData"):
    """The result for one entity."""

    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    entity: Sequence[EntityData]


class AlterClientQuotasResponse(Response, api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"):
    """The results for the entities."""

    throttle_time_ms: Int32 = 0
    entries: Sequence[EntryDataResult]
