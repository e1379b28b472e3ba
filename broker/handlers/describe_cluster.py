"""DescribeCluster, versions 0 and 1: the brokers of the cluster, its id and its controller.

Brokers alone are told of: there are no controllers apart from them, as there are in KRaft mode.
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
    """Tell the brokers at the listener that was asked."""
    if request.endpoint_type == _CONTROLLERS:
        return _refused(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != _BROKERS:
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}")
    nodes = metadata.nodes(context.listener_name)
    controller_id = metadata.controller_id
    is_told = any(node.broker_id == controller_id for node in nodes)
    operations = OPERATIONS_OMITTED
    if request.include_cluster_authorized_operations:
        operations = access.cluster_operations(context)
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=cluster_id,
        controller_id=controller_id if controller_id is not None and is_told else -1,
        brokers=[
            DescribeClusterBroker(broker_id=node.broker_id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes
        ],
        cluster_authorized_operations=operations,
    )


def error_response(request: DescribeClusterRequest, version: int, code: ErrorCode) -> DescribeClusterResponse:
    """Nothing but the error."""
    return _refused(code, None)


def _refused(code: ErrorCode, message: str | None) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=message, cluster_id="", brokers=())
