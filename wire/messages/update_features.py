"""UpdateFeatures: raise or lower the finalized levels of features of the cluster.

0   the first form
1   upgrade type instead of whether a downgrade is allowed; validate only
2   no results for single features
"""

from collections.abc import Sequence
from typing import Annotated

from ottla.wire.api_keys import ApiKey
from ottla.wire.schema import Request, Response, Struct, V
from ottla.wire.types import Bool, Int8, Int16, Int32, String


class FeatureUpdateKey(Struct):
    """A feature's new level, below 1 to delete it: type 1 upgrades, 2 downgrades safely, 3 even with losses."""

    feature: String
    max_version_level: Int16
    allow_downgrade: Annotated[Bool, V("0")] = False
    upgrade_type: Annotated[Int8, V("1+")] = 1


class UpdateFeaturesRequest(Request, api_key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    """Update features, or only say whether they could be updated."""

    timeout_ms: Int32 = 60000
    feature_updates: Sequence[FeatureUpdateKey]
    validate_only: Annotated[Bool, V("1+")] = False


class UpdatableFeatureResult(Struct):
    """The result for one feature."""

    feature: String
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]


class UpdateFeaturesResponse(Response, api_key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    """The results for the features."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: Annotated[String | None, V(nullable="0+")]
    results: Annotated[Sequence[UpdatableFeatureResult], V("0-1")] = ()
