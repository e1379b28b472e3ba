"""ApiVersions: the APIs that this broker answers, and their versions.

Must not know how requests are dispatched.

Behaviour:
- A request of an unknown version gets error 35 in a body of version 0, with the versions of ApiVersions alone, because
  a client sends this request before it knows any version.
- From version 3, a client software name or version that Kafka does not allow gets INVALID_REQUEST.
- The features are those of a ZooKeeper-mode Kafka 3.9: none, and the epoch of the cluster's empty set.
Versions: 0 to 4. From 3 the software of the client, and features in the response.
Counterparts in Kafka: KafkaApis.handleApiVersionsRequest, ApiVersionManager, ApiVersionsRequest.
"""

import re
from collections.abc import Mapping
from typing import Final

from ottla.broker.net.session import RequestContext
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.types import VersionRange

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)
# The version of the znode /feature, which the controller creates and nothing changes.
_FEATURES_EPOCH: Final = 0


def handle(
    request: ApiVersionsRequest, context: RequestContext, *, offered: Mapping[ApiKey, VersionRange]
) -> ApiVersionsResponse:
    """Return the `offered` versions, or INVALID_REQUEST for a name of software that Kafka does not allow."""
    if context.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=[_range(key, offered[key]) for key in sorted(offered)],
        finalized_features_epoch=_FEATURES_EPOCH,
    )


def _range(key: ApiKey, versions: VersionRange) -> ApiVersion:
    return ApiVersion(api_key=key, min_version=versions.lowest, max_version=versions.highest)


def error_response(
    request: ApiVersionsRequest | None, version: int, code: ErrorCode, *, offered: Mapping[ApiKey, VersionRange]
) -> ApiVersionsResponse:
    """Return the error; UNSUPPORTED_VERSION, whose request is None, with the known versions."""
    own = [_range(ApiKey.API_VERSIONS, offered[ApiKey.API_VERSIONS])]
    return ApiVersionsResponse(error_code=code, api_keys=own if code is ErrorCode.UNSUPPORTED_VERSION else ())
