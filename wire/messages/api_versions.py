"""ApiVersions: which requests a broker understands.

0   the first form; also the response's form to a request of an unknown version
1   throttle time
2   the client waits out the throttle time itself
3   flexible, but never in the response's header; software of the client; features
4   a feature's lowest version may be 0
5   cluster id and node id of the broker that the client expects
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int16, Int32, Int64, String


class ApiVersionsRequest(Request, api_key=ApiKey.API_VERSIONS, versions="0-5", flexible="3+"):
    """Ask for the supported APIs."""

    client_software_name: Annotated[String, V("3+")] = ""
    client_software_version: Annotated[String, V("3+")] = ""
    cluster_id: Annotated[String | None, V("5+", nullable="5+")] = None
    node_id: Annotated[Int32, V("5+")] = -1


class ApiVersion(Struct):
    """A request and the versions of it that the broker understands."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Struct):
    """A feature and the levels of it that the broker supports."""

    name: String
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Struct):
    """A feature and the levels of it that the cluster has settled on."""

    name: String
    max_version_level: Int16
    min_version_level: Int16


class ApiVersionsResponse(Response, api_key=ApiKey.API_VERSIONS, versions="0-5", flexible="3+"):
    """The supported APIs."""

    error_code: Int16
    api_keys: Sequence[ApiVersion]
    throttle_time_ms: Annotated[Int32, V("1+")] = 0
    supported_features: Annotated[Sequence[SupportedFeatureKey], V("3+", tag=0)] = ()
    finalized_features_epoch: Annotated[Int64, V("3+", tag=1)] = -1
    finalized_features: Annotated[Sequence[FinalizedFeatureKey], V("3+", tag=2)] = ()
    zk_migration_ready: Annotated[Bool, V("3+", tag=3)] = False
