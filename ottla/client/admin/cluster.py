"""The cluster itself: its id, its brokers and its controllers; unregistering brokers, adding and removing controllers.

Must not know topics. Counterparts in Kafka: KafkaAdminClient's describeCluster, unregisterBroker and
describeMetadataQuorum.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.cluster import ANY, Client, Node, check
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestedPartition,
    RequestedTopic,
)
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

METADATA_TOPIC: Final = "__cluster_metadata"
_CONTROLLERS: Final = 2
_WITH_ENDPOINT_TYPE: Final = 1
_WITH_FENCED: Final = 2


class Broker(NamedTuple):
    """A broker, or a controller of a KRaft cluster; `is_fenced` is None if the answering broker is too old."""

    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool | None = None


class ClusterDescription(NamedTuple):
    """A cluster; its controller is None if there is none."""

    cluster_id: str | None
    controller_id: int | None
    brokers: Sequence[Broker]


async def describe_cluster(client: Client, *, fenced: bool = False, controllers: bool = False) -> ClusterDescription:
    """Return the cluster with its live brokers, with fenced ones too, or with the controllers in place of brokers.

    A broker without DescribeCluster gets a Metadata request.
    """
    connection = await client.connection()
    if ApiKey.DESCRIBE_CLUSTER not in connection.api_versions and not fenced and not controllers:
        metadata = await client.metadata(())
        known = [Broker(each.node_id, each.host, each.port, each.rack) for each in metadata.brokers]
        return ClusterDescription(metadata.cluster_id, _known(metadata.controller_id), known)
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=_CONTROLLERS if controllers else 1,
        include_fenced_brokers=fenced,
    )
    lowest = _WITH_FENCED if fenced else _WITH_ENDPOINT_TYPE if controllers else 0
    response = await client.ask(request, ANY, DescribeClusterResponse, lowest=lowest)
    check(response.error_code, response.error_message)
    tells_fenced = connection.version_of(DescribeClusterRequest) >= _WITH_FENCED
    brokers = [
        Broker(each.broker_id, each.host, each.port, each.rack, each.is_fenced if tells_fenced else None)
        for each in response.brokers
    ]
    return ClusterDescription(response.cluster_id, _known(response.controller_id), brokers)


async def knows_fenced(client: Client) -> bool:
    """Whether the answering broker knows which brokers are fenced."""
    offered = (await client.connection()).api_versions.get(ApiKey.DESCRIBE_CLUSTER)
    return offered is not None and offered.highest >= _WITH_FENCED


async def use_controllers(client: Client) -> None:
    """Set the client's nodes to all controllers of a KRaft cluster; its bootstrap servers are some of them."""
    found = await describe_cluster(client, controllers=True)
    client.nodes = {each.id: Node(each.id, each.host, each.port, each.rack) for each in found.brokers}
    client.controller_id = -1 if found.controller_id is None else found.controller_id
    client.cluster_id = found.cluster_id


def _known(node_id: int) -> int | None:
    return None if node_id < 0 else node_id


async def unregister_broker(client: Client, broker_id: int) -> None:
    """Unregister a broker that is gone for good from a KRaft cluster."""
    response = await client.ask(UnregisterBrokerRequest(broker_id=broker_id), ANY, UnregisterBrokerResponse)
    check(response.error_code, response.error_message)


# The quorum of a KRaft cluster


class Quorum(NamedTuple):
    """The controllers: the leader, the voters, the observers, and the listeners of those that have any."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: Sequence[ReplicaState]
    observers: Sequence[ReplicaState]
    listeners: Mapping[int, Sequence[str]]


async def describe_quorum(client: Client) -> Quorum:
    """Return the quorum of the metadata log."""
    topics = [RequestedTopic(topic_name=METADATA_TOPIC, partitions=[RequestedPartition(partition_index=0)])]
    response = await client.ask(DescribeQuorumRequest(topics=topics), ANY, DescribeQuorumResponse)
    check(response.error_code, response.error_message)
    partitions = [each for topic in response.topics for each in topic.partitions]
    if len(partitions) != 1:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the response has {len(partitions)} quorums in place of one")
    quorum = partitions[0]
    check(quorum.error_code, quorum.error_message)
    listeners = {
        node.node_id: [f"{each.name}://{bracketed(each.host)}:{each.port}" for each in node.listeners]
        for node in response.nodes
    }
    return Quorum(
        quorum.leader_id,
        quorum.leader_epoch,
        quorum.high_watermark,
        list(quorum.current_voters),
        list(quorum.observers),
        listeners,
    )


class ControllerListener(NamedTuple):
    """An address of a controller."""

    name: str
    host: str
    port: int


async def add_controller(
    client: Client, controller_id: int, directory_id: bytes, listeners: Sequence[ControllerListener], timeout_ms: int
) -> None:
    """Add a controller to the voters."""
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=timeout_ms,
        voter_id=controller_id,
        voter_directory_id=directory_id,
        listeners=[Listener(name=each.name, host=each.host, port=each.port) for each in listeners],
    )
    response = await client.ask(request, ANY, AddRaftVoterResponse, timeout_seconds=timeout_ms / 1000)
    check(response.error_code, response.error_message)


async def remove_controller(client: Client, controller_id: int, directory_id: bytes) -> None:
    """Remove a controller from the voters."""
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=controller_id, voter_directory_id=directory_id)
    response = await client.ask(request, ANY, RemoveRaftVoterResponse)
    check(response.error_code, response.error_message)


def bracketed(host: str) -> str:
    """Return a host for HOST:PORT: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host
