"""DescribeCluster: the brokers of the cluster, its id and its controller.

Behaviour:
- Only brokers with an endpoint at the client's listener are in the response. Without one, the controller is -1.
- There are no controllers apart from brokers, as in KRaft mode: they get MISMATCHED_ENDPOINT_TYPE.
- Authorized operations are in the response only if the client asks for them.
Versions: 0 and 1. From 1 the type of endpoint, brokers or controllers.
Counterpart in Kafka: KafkaApis.handleDescribeCluster, AuthHelper.computeDescribeClusterResponse.
"""

from typing import Final

from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.net.session import RequestContext
from ottla.broker.requests.authorizer import EVERYBODY, Access
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.wire.messages.metadata import OPERATIONS_OMITTED

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(
    request: DescribeClusterRequest,
    context: RequestContext,
    *,
    metadata: MetadataCache,
    cluster_id: str,
    access: Access = EVERYBODY,
) -> DescribeClusterResponse:
    """Return the brokers with their endpoints at the client's listener."""
    if request.endpoint_type == _CONTROLLERS:
        return _refused(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
    nodes = metadata.nodes(context.listener_name)
    controller_id = metadata.controller_id
    is_reachable = any(node.broker_id == controller_id for node in nodes)
    operations = OPERATIONS_OMITTED
    if request.include_cluster_authorized_operations:
        operations = access.cluster_operations(context)
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=cluster_id,
        controller_id=controller_id if controller_id is not None and is_reachable else -1,
        brokers=[
            DescribeClusterBroker(broker_id=node.broker_id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes
        ],
        cluster_authorized_operations=operations,
    )


def error_response(request: DescribeClusterRequest, version: int, code: ErrorCode) -> DescribeClusterResponse:
    """Return the error alone."""
    return _refused(code, None)


def _refused(code: ErrorCode, message: str | None) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=message, cluster_id="", brokers=())
