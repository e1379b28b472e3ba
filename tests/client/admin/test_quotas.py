"""Quotas: the requests that describe and change entities."""

from ottla.client.admin.quotas import CLIENT_ID, IP, USER, Entity, Part, Wanted, alter_quotas, describe_quotas
from ottla.client.cluster import open_client
from ottla.client.config import ClientConfig
from ottla.wire.codec import RequestHeader
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import alter_client_quotas as altering
from ottla.wire.messages import describe_client_quotas as describing
from ottla.wire.schema import Request, Response
from tests.client.scripted import ScriptedBroker, listening

ALICE = frozenset({Part(USER, "alice"), Part(CLIENT_ID, None)})
HOST = frozenset({Part(IP, "10.0.0.1")})


async def answer(header: RequestHeader, request: Request) -> Response:
    if isinstance(request, describing.DescribeClientQuotasRequest):
        entity = [describing.EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(ALICE)]
        entry = describing.EntryData(entity=entity, values=[describing.ValueData(key="producer_byte_rate", value=1.5)])
        return describing.DescribeClientQuotasResponse(error_code=0, error_message=None, entries=[entry])
    assert isinstance(request, altering.AlterClientQuotasRequest)
    results = [
        altering.EntryDataResult(
            error_code=42 * (each.entity[0].entity_type == IP), error_message="no", entity=each.entity
        )
        for each in request.entries
    ]
    return altering.AlterClientQuotasResponse(entries=results)


async def test_an_entity_may_have_a_name_the_default_or_any() -> None:
    broker = ScriptedBroker(answer)
    async with listening(broker), open_client(ClientConfig({"bootstrap.servers": broker.bootstrap})) as client:
        found = await describe_quotas(
            client, [Wanted(USER, "alice"), Wanted(CLIENT_ID, None), Wanted(IP, is_any=True)], strict=True
        )
        await describe_quotas(client)
    assert found == {ALICE: {"producer_byte_rate": 1.5}}
    first, second = (each for each in broker.requests if isinstance(each, describing.DescribeClientQuotasRequest))
    assert [(each.entity_type, each.match_type, each.match) for each in first.components] == [
        ("user", 0, "alice"),
        ("client-id", 1, None),
        ("ip", 2, None),
    ]
    assert first.strict
    assert (list(second.components), second.strict) == ([], False)


async def test_a_quota_without_a_value_is_removed_and_each_entity_has_a_result() -> None:
    broker = ScriptedBroker(answer)
    changes: dict[Entity, dict[str, float | None]] = {
        ALICE: {"producer_byte_rate": 5.0, "request_percentage": None},
        HOST: {"connection_creation_rate": 0.0},
    }
    async with listening(broker), open_client(ClientConfig({"bootstrap.servers": broker.bootstrap})) as client:
        results = await alter_quotas(client, changes, validate_only=True)
    assert results[ALICE] is None
    assert isinstance(refused := results[HOST], KafkaError)
    assert refused.code == ErrorCode.INVALID_REQUEST
    sent = broker.requests[-1]
    assert isinstance(sent, altering.AlterClientQuotasRequest)
    assert sent.validate_only
    assert [(each.key, each.value, each.remove) for entry in sent.entries for each in entry.ops] == [
        ("producer_byte_rate", 5.0, False),
        ("request_percentage", 0.0, True),
        ("connection_creation_rate", 0.0, False),
    ]
