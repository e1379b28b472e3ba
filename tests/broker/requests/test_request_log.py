"""Requests are logged if the request logger is at DEBUG, and else cost nothing more."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker.bindings import with_api_versions
from ottla.broker.loop.deferred import CloseConnection, Deferred
from ottla.broker.net.session import ClientSession, RequestContext
from ottla.broker.requests.dispatch import build_apis
from ottla.broker.requests.request_log import describe, logged
from ottla.wire.api_keys import ApiKey
from ottla.wire.codec import encode_request
from ottla.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

NAME = "kafka.request.logger"
REQUEST = FindCoordinatorRequest(key="group\nx")
RESPONSE = FindCoordinatorResponse(host="h", port=1)
CONTEXT = RequestContext(10, 0, "me", connection_id="c")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    with caplog.at_level(logging.DEBUG, NAME):
        yield lambda: [json.loads(message.removeprefix("Completed request:")) for message in caplog.messages]


def answering(response: object) -> Callable[[object, object], object]:
    def handle(request: object, context: object) -> object:
        if isinstance(response, Exception):
            raise response
        return response

    return handle


def test_without_the_request_log_the_handler_stays_the_same(caplog: pytest.LogCaptureFixture) -> None:
    handler = answering(RESPONSE)
    with caplog.at_level(logging.INFO, NAME):
        assert logged(ApiKey.FIND_COORDINATOR, handler) is handler


def test_a_request_is_logged_with_its_response_and_its_times(lines: Callable[[], list[dict[str, Any]]]) -> None:
    ticks = iter([10.0, 10.25, 10.5])
    handler = logged(ApiKey.FIND_COORDINATOR, answering(RESPONSE), lambda: next(ticks))
    assert handler(REQUEST, CONTEXT) is RESPONSE
    assert lines() == [
        {
            "requestHeader": {
                "requestApiKey": 10,
                "requestApiVersion": 0,
                "clientId": "me",
                "requestApiKeyName": "FIND_COORDINATOR",
            },
            "request": {"key": "group\nx"},
            "response": {"errorCode": 0, "nodeId": 0, "host": "h", "port": 1},
            "connection": "c",
            "totalTimeMs": 500.0,
            "localTimeMs": 250.0,
            "remoteTimeMs": 250.0,
            "principal": "User:ANONYMOUS",
            "listener": "PLAINTEXT",
        }
    ]


@pytest.mark.parametrize("applied", [True, False])
def test_a_deferred_reply_is_logged_when_it_completes(applied: bool, lines: Callable[[], list[dict[str, Any]]]) -> None:
    inner: Deferred[FindCoordinatorResponse] = Deferred(applied)
    outer = logged(ApiKey.FIND_COORDINATOR, answering(inner))(REQUEST, CONTEXT)
    assert (outer.applied, outer.done, lines()) == (applied, False, [])
    inner.complete(RESPONSE)
    assert outer.response is RESPONSE
    assert lines()[0]["response"]["host"] == "h"


def test_closing_and_abandoning_pass_through_the_log(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    left: list[str] = []
    inner: Deferred[FindCoordinatorResponse] = Deferred(False, lambda: left.append("left"))
    logged(ApiKey.FIND_COORDINATOR, answering(inner))(REQUEST, CONTEXT).abandon()
    assert left == ["left"]
    closing: Deferred[FindCoordinatorResponse] = Deferred(False)
    outer = logged(ApiKey.FIND_COORDINATOR, answering(closing))(REQUEST, CONTEXT)
    closing.close(CloseConnection("enough"))
    with pytest.raises(CloseConnection, match="enough"):
        _ = outer.response
    assert lines()[-1]["response"] == "CloseConnection('enough')"


def test_an_exception_is_logged_and_raised(lines: Callable[[], list[dict[str, Any]]]) -> None:
    with pytest.raises(ZeroDivisionError):
        logged(ApiKey.FIND_COORDINATOR, answering(ZeroDivisionError("bug")))(REQUEST, CONTEXT)
    assert lines()[0]["response"] == "ZeroDivisionError('bug')"


def test_records_and_bytes_are_logged_as_sizes_and_ids_as_text() -> None:
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=memoryview(b"secret"))])
    found = describe(ProduceRequest(acks=1, timeout_ms=5, topic_data=[data]), 9, ApiKey.PRODUCE)
    assert found["topicData"] == [{"name": "t", "partitionData": [{"index": 0, "recordsSizeInBytes": 6}]}]
    topic = FetchTopic(
        topic_id=bytes(15) + b"\5", partitions=[FetchPartition(partition=1, fetch_offset=7, partition_max_bytes=9)]
    )
    fetched = describe(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[topic]), 13, ApiKey.FETCH)["topics"]
    assert '{"topicId": "AAAAAAAAAAAAAAAAAAAABQ", "partitions": [' in json.dumps(fetched)


def test_values_of_changed_configs_are_not_logged() -> None:
    config = AlterableConfig(name="ssl.keystore.password", value="secret")
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
    found = describe(AlterConfigsRequest(resources=[resource], validate_only=False), 2, ApiKey.ALTER_CONFIGS)
    assert "secret" not in json.dumps(found)
    assert "ssl.keystore.password" in json.dumps(found)


def test_requests_to_the_table_are_logged(lines: Callable[[], list[dict[str, Any]]]) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    build_apis(with_api_versions({})).dispatch(ClientSession(), memoryview(encode_request(3, 7, "me", request))[4:])
    assert lines()[0]["request"] == {"clientSoftwareName": "a", "clientSoftwareVersion": "1"}
