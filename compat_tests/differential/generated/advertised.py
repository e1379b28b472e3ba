"""The API versions that only one of the brokers offers, and the versions that old clients use.

Only versions that both brokers offer are requested; `allowed` has the differences of their answers.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from compat_tests.differential.generated.pair import Pair
from compat_tests.differential.generated.specification import key_of, requests


class Offer(NamedTuple):
    """An API's versions of Ottla, those of Kafka 3.9.2 with ZooKeeper, and the reason of the difference."""

    ottla: str
    kafka: str
    reason: str


_DROPPED: Final = "Kafka 4.0 dropped the oldest versions"
_SECURITY: Final = "Ottla has no TLS, no SASL, no ACLs and no delegation tokens"
_QUOTAS: Final = "Ottla has no quotas"
_FEATURES: Final = "Ottla has no features that are finalized"
_FORWARDING: Final = "no broker forwards requests to Ottla's controller in an envelope"
_NEW_GROUPS: Final = "Ottla has groups of the classic protocol alone"
_KRAFT_ONLY: Final = "Kafka offers it in KRaft mode only"

ONLY_ONE_SIDE: Final[Mapping[str, Offer]] = {
    "Fetch": Offer("4-17", "0-17", _DROPPED),
    "ListOffsets": Offer("1-9", "0-9", _DROPPED),
    "OffsetCommit": Offer("2-9", "0-9", _DROPPED),
    "OffsetFetch": Offer("1-9", "0-9", _DROPPED),
    "CreateTopics": Offer("2-7", "0-7", _DROPPED),
    "DeleteTopics": Offer("1-6", "0-6", _DROPPED),
    "OffsetForLeaderEpoch": Offer("2-4", "0-4", _DROPPED),
    "DescribeConfigs": Offer("1-4", "0-4", _DROPPED),
    "AlterReplicaLogDirs": Offer("1-2", "0-2", _DROPPED),
    "DescribeLogDirs": Offer("1-4", "0-4", _DROPPED),
    "WriteTxnMarkers": Offer("1-1", "0-1", _DROPPED),
    "SaslHandshake": Offer("", "0-1", _SECURITY),
    "SaslAuthenticate": Offer("", "0-2", _SECURITY),
    "DescribeAcls": Offer("", "0-3", _SECURITY),
    "CreateAcls": Offer("", "0-3", _SECURITY),
    "DeleteAcls": Offer("", "0-3", _SECURITY),
    "CreateDelegationToken": Offer("", "0-3", _SECURITY),
    "RenewDelegationToken": Offer("", "0-2", _SECURITY),
    "ExpireDelegationToken": Offer("", "0-2", _SECURITY),
    "DescribeDelegationToken": Offer("", "0-3", _SECURITY),
    "DescribeUserScramCredentials": Offer("", "0-0", _SECURITY),
    "AlterUserScramCredentials": Offer("", "0-0", _SECURITY),
    "DescribeClientQuotas": Offer("", "0-1", _QUOTAS),
    "AlterClientQuotas": Offer("", "0-1", _QUOTAS),
    "UpdateFeatures": Offer("", "0-1", _FEATURES),
    "Envelope": Offer("", "0-0", _FORWARDING),
    "ConsumerGroupHeartbeat": Offer("", "0-0", _NEW_GROUPS),
    "ConsumerGroupDescribe": Offer("", "0-0", _NEW_GROUPS),
    "DescribeTopicPartitions": Offer("0-0", "", _KRAFT_ONLY),
}

RELEASES: Final = ("0.11", "1.0", "1.1", "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8")
# For each release of kafka-clients, its highest version of each API that both brokers offer; "-" for none.
HIGHEST: Final[Mapping[str, str]] = {
    "Produce": "3 5 5 6 7 7 7 8 8 8 8 9",
    "Fetch": "5 6 7 8 10 10 11 11 11 11 12 12",
    "ListOffsets": "2 2 2 3 4 5 5 5 5 5 5 6",
    "Metadata": "4 5 5 6 7 7 8 9 9 9 9 11",
    "LeaderAndIsr": "0 1 1 1 1 2 2 4 4 4 4 5",
    "StopReplica": "0 0 0 0 0 1 1 2 2 3 3 3",
    "UpdateMetadata": "3 4 4 4 4 5 5 6 6 6 6 7",
    "ControlledShutdown": "1 1 1 1 1 2 2 3 3 3 3 3",
    "OffsetCommit": "3 3 3 4 6 6 7 8 8 8 8 8",
    "OffsetFetch": "3 3 3 4 5 5 5 6 7 7 7 7",
    "FindCoordinator": "1 1 1 2 2 2 2 3 3 3 3 3",
    "JoinGroup": "2 2 2 3 3 4 5 6 7 7 7 7",
    "Heartbeat": "1 1 1 2 2 2 3 4 4 4 4 4",
    "LeaveGroup": "1 1 1 2 2 2 2 4 4 4 4 4",
    "SyncGroup": "1 1 1 2 2 2 3 4 5 5 5 5",
    "DescribeGroups": "1 1 1 2 2 2 3 5 5 5 5 5",
    "ListGroups": "1 1 1 2 2 2 2 3 3 4 4 4",
    "ApiVersions": "1 1 1 2 2 2 2 3 3 3 3 3",
    "CreateTopics": "2 2 2 3 3 3 3 5 5 5 6 7",
    "DeleteTopics": "1 1 1 2 3 3 3 4 4 4 5 6",
    "DeleteRecords": "0 0 0 1 1 1 1 1 1 2 2 2",
    "InitProducerId": "0 0 0 1 1 1 1 2 3 3 4 4",
    "OffsetForLeaderEpoch": "0 0 0 1 2 2 3 3 3 3 3 4",
    "DescribeConfigs": "0 0 1 2 2 2 2 2 2 3 3 4",
    "AlterConfigs": "0 0 0 1 1 1 1 1 1 1 1 2",
    "AlterReplicaLogDirs": "- 0 0 1 1 1 1 1 1 1 1 2",
    "DescribeLogDirs": "- 0 0 1 1 1 1 1 1 2 2 2",
    "CreatePartitions": "- 0 0 1 1 1 1 1 2 2 3 3",
    "DeleteGroups": "- - 0 1 1 1 1 2 2 2 2 2",
    "ElectLeaders": "- - - - - 0 0 2 2 2 2 2",
    "IncrementalAlterConfigs": "- - - - - - 0 1 1 1 1 1",
    "AlterPartitionReassignments": "- - - - - - - 0 0 0 0 0",
    "ListPartitionReassignments": "- - - - - - - 0 0 0 0 0",
    "OffsetDelete": "- - - - - - - 0 0 0 0 0",
    "AlterPartition": "- - - - - - - - - - 0 0",
    "DescribeCluster": "- - - - - - - - - - - 0",
    "DescribeProducers": "- - - - - - - - - - - 0",
}


def offers(pair: Pair) -> dict[str, tuple[str, str]]:
    """Return the versions of Ottla and those of Kafka for each API in which they differ."""
    ottla, kafka = (side.versions for side in pair.sides)
    return {
        requests()[key].name: (_text(ottla.get(key)), _text(kafka.get(key)))
        for key in sorted(ottla.keys() | kafka.keys())
        if ottla.get(key) != kafka.get(key)
    }


def _text(versions: tuple[int, int] | None) -> str:
    return f"{versions[0]}-{versions[1]}" if versions else ""


def spoken_by_old_clients() -> Iterator[tuple[str, str, int, int]]:
    """Yield a release, an API, its number, and each version that the release may use and Ottla offers.

    A client uses the highest version that the broker offers, too.
    """
    for api, versions in HIGHEST.items():
        dropped = ONLY_ONE_SIDE.get(api)
        lowest = int(dropped.ottla.partition("-")[0]) if dropped else 0
        for release, highest in zip(RELEASES, versions.split(), strict=True):
            for version in range(lowest, 0 if highest == "-" else int(highest) + 1):
                yield release, api, key_of(api), version
