"""Features of a cluster: the levels that brokers support, and the finalized levels.

Must not know what a feature means. Counterparts in Kafka: FeatureMetadata, FeatureUpdate.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.cluster import ANY, CONTROLLER, Client, Target, kafka_error
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

_TIMEOUT_MS: Final = 60_000
_WITH_UPGRADE_TYPE: Final = 1


class UpgradeType(IntEnum):
    """How a level may change: up only, down if no metadata is lost, down even if metadata is lost."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Feature(NamedTuple):
    """The levels that a broker supports, and the cluster's finalized level: 0 if the feature is off."""

    name: str
    lowest: int
    highest: int
    finalized: int


class Features(NamedTuple):
    """All features by name. The epoch counts their changes; None if there was none."""

    features: Mapping[str, Feature]
    epoch: int | None


async def describe_features(client: Client, target: Target = ANY) -> Features:
    """Return a broker's features. A broker older than Kafka 2.7 has none."""
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version="0")
    response = await client.ask(request, target, ApiVersionsResponse)
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    found = {
        each.name: Feature(each.name, each.min_version, each.max_version, finalized.get(each.name, 0))
        for each in sorted(response.supported_features, key=lambda it: it.name)
    }
    epoch = response.finalized_features_epoch
    return Features(found, None if epoch < 0 else epoch)


async def update_features(
    client: Client, levels: Mapping[str, int], upgrade_type: UpgradeType, *, validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """Change levels of features, or only check the change. Level 0 turns a feature off."""
    request = UpdateFeaturesRequest(
        timeout_ms=_TIMEOUT_MS,
        feature_updates=[
            FeatureUpdateKey(
                feature=name,
                max_version_level=level,
                allow_downgrade=upgrade_type is not UpgradeType.UPGRADE,
                upgrade_type=upgrade_type,
            )
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )
    can_only_allow = not validate_only and upgrade_type is not UpgradeType.UNSAFE_DOWNGRADE
    response = await client.ask(
        request,
        CONTROLLER,
        UpdateFeaturesResponse,
        lowest=0 if can_only_allow else _WITH_UPGRADE_TYPE,
        timeout_seconds=_TIMEOUT_MS / 1000,
    )
    if response.error_code != ErrorCode.NONE:
        return dict.fromkeys(levels, kafka_error(response.error_code, response.error_message))
    told = {each.feature: each for each in response.results}
    # Brokers of Kafka 4 answer for all features at once.
    return {
        name: kafka_error(told[name].error_code, told[name].error_message)
        if name in told and told[name].error_code != ErrorCode.NONE
        else None
        for name in levels
    }
