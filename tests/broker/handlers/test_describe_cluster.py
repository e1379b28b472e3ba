from ottla.broker.handlers import describe_cluster
from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.broker.support.hosted import House

OMITTED = -(2**31)


def send(
    house: House, version: int = 1, *, listener: str = "PLAINTEXT", operations: bool = False, endpoint_type: int = 1
) -> DescribeClusterResponse:
    request = DescribeClusterRequest(include_cluster_authorized_operations=operations, endpoint_type=endpoint_type)
    context = RequestContext(ApiKey.DESCRIBE_CLUSTER, version, "test", listener_name=listener)
    response = describe_cluster.handle(request, context, metadata=house.metadata, cluster_id="the-cluster")
    return DescribeClusterResponse.decode(response.encode(version), version)


def test_the_response_has_brokers_and_controller(house: House) -> None:
    for version in (0, 1):
        told = send(house, version)
        assert (told.error_code, told.error_message, told.cluster_id) == (0, None, "the-cluster")
        assert (told.controller_id, told.endpoint_type) == (0, 1)
        assert [(each.broker_id, each.host, each.port, each.rack) for each in told.brokers] == [
            (0, "h", 9000, ""),
            (1, "h", 9001, ""),
        ]


def test_the_response_has_operations_on_request(house: House) -> None:
    assert send(house).cluster_authorized_operations == OMITTED
    assert send(house, operations=True).cluster_authorized_operations == 0x1FA0


def test_a_listener_that_no_broker_has_gives_neither_brokers_nor_controller(house: House) -> None:
    told = send(house, listener="OTHER")
    assert (told.controller_id, len(told.brokers)) == (-1, 0)


def test_without_a_controller_its_id_is_minus_one(house: House) -> None:
    house.metadata.controller_id = None
    assert send(house).controller_id == -1


def test_a_request_for_controllers_is_refused(house: House) -> None:
    refused = send(house, endpoint_type=2)
    assert refused.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert refused.error_message == (
        "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    )
    assert not refused.brokers


def test_an_unknown_type_of_endpoint_is_refused(house: House) -> None:
    for kind in (0, 3, -1):
        refused = send(house, endpoint_type=kind)
        assert refused.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        assert refused.error_message == f"Unsupported endpoint type {kind}"


def test_an_error_of_the_whole_request_comes_alone() -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    failed = describe_cluster.error_response(request, 1, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (failed.error_code, failed.controller_id, failed.brokers) == (-1, -1, ())
