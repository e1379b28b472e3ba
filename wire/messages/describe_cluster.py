"""DescribeCluster: the brokers of the cluster.

0   the first form
1   endpoint type (1 brokers, 2 controllers); may answer MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE
2   fenced brokers, if asked for
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.messages.metadata import OPERATIONS_OMITTED
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int8, Int16, Int32, String


class DescribeClusterRequest(Request, api_key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"):
    """Describe the cluster."""

    include_cluster_authorized_operations: Bool
    endpoint_type: Annotated[Int8, V("1+")] = 1
    include_fenced_brokers: Annotated[Bool, V("2+")] = False


class DescribeClusterBroker(Struct):
    """A broker, at the listener by which it was asked."""

    broker_id: Int32
    host: String
    port: Int32
    rack: Annotated[String | None, V(nullable="0+")] = None
    is_fenced: Annotated[Bool, V("2+")] = False


class DescribeClusterResponse(Response, api_key=ApiKey.DESCRIBE_CLUSTER, versions="0-2", flexible="0+"):
    """The cluster as the broker knows it."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")] = None
    endpoint_type: Annotated[Int8, V("1+")] = 1
    cluster_id: String
    controller_id: Int32 = -1
    brokers: Sequence[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = OPERATIONS_OMITTED
