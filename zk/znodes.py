"""What Kafka keeps in ZooKeeper: the path of every znode, and its data to and from bytes.

PURE. Owns paths and JSON shapes, key for key as a ZooKeeper-mode Kafka 3.9 writes them, because Kafka's brokers and
tools read them too. Must not know how a znode is read or written. Counterpart in Kafka: kafka.zk.ZkData.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from ottla.wire.types import MAX_INT32, MAX_INT64, TopicPartition
from ottla.wire.uuids import parse_uuid, uuid_text
from ottla.zk.strict_json import ZnodeError, broker_ids, decode_object, member, number, objects, shown

BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE_ID: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
# The name of what holds for every broker, client, user or address that has nothing of its own.
DEFAULT_ENTITY: Final = "<default>"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "config_change_"
CLUSTER_ID: Final = "/cluster/id"
FEATURE: Final = "/feature"
ISR_CHANGE_NOTIFICATION: Final = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATION: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "log_dir_event_"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"

# Every broker makes sure of these when it starts; their parents come with them.
PERSISTENT_PATHS: Final = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE_ID,
    ISR_CHANGE_NOTIFICATION,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    TOPIC_CONFIGS,
    "/config/clients",
    "/config/users",
    BROKER_CONFIGS,
    "/config/ips",
)

# What nobody but the brokers may read, where znodes have ACLs: credentials, and configs that hold passwords.
_SENSITIVE_PATHS: Final = ("/config/users", BROKER_CONFIGS, "/delegation_token/tokens")

NO_LEADER: Final = -1
LEADER_DURING_DELETE: Final = -2
RECOVERED: Final = 0
RECOVERING: Final = 1

_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOG_DIR_FAILED: Final = 1
_LONG: Final = re.compile(r"[0-9]{1,19}")
_MAX_PORT: Final = 0xFFFF
_MAX_ENDPOINT: Final = 0x7FFF

_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


def broker_id_path(broker_id: int) -> str:
    """Return the path of a broker's registration."""
    return f"{BROKER_IDS}/{broker_id}"


def decode_broker_id(name: bytes) -> int:
    """Return the broker whose registration has this name."""
    return number(name.decode())


def topic_path(topic: str) -> str:
    """Return the path of a topic."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """Return the path under which a topic's partitions are."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(partition: TopicPartition) -> str:
    """Return the path of a partition."""
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}"


def partition_state_path(partition: TopicPartition) -> str:
    """Return the path of a partition's leader and in-sync replicas."""
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}/state"


def topic_config_path(topic: str) -> str:
    """Return the path of a topic's configs."""
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(entity: str) -> str:
    """Return the path of the configs of one broker, or of all (DEFAULT_ENTITY)."""
    return f"{BROKER_CONFIGS}/{entity}"


def delete_topic_path(topic: str) -> str:
    """Return the path that marks a topic for deletion."""
    return f"{DELETE_TOPICS}/{topic}"


def is_open(path: str) -> bool:
    """Say whether anybody may write a znode, even where znodes have ACLs: consumers of old came here."""
    return path == "/consumers"


def is_sensitive(path: str) -> bool:
    """Say whether only brokers may read a znode, where znodes have ACLs."""
    return path.startswith(_SENSITIVE_PATHS)


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]


class Endpoint(NamedTuple):
    """Where a broker is to be reached by those who come through one listener."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    @property
    def connection_string(self) -> str:
        """The endpoint as a registration spells it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class BrokerInfo(NamedTuple):
    """/brokers/ids/N: a broker's registration, in the version 5 that Kafka writes since 2.7."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    jmx_port: int = -1

    def encode(self, timestamp_ms: int) -> bytes:
        """Return the data. The first plaintext endpoint stands at the top level too, for old clients."""
        plain = next((each for each in self.endpoints if each.security_protocol == "PLAINTEXT"), None)
        data: dict[str, object] = {
            "features": {},
            "listener_security_protocol_map": {each.listener: each.security_protocol for each in self.endpoints},
            "endpoints": [each.connection_string for each in self.endpoints],
            "jmx_port": self.jmx_port,
            "port": plain.port if plain else -1,
            "host": plain.host if plain else None,
            "version": 5,
            "timestamp": str(timestamp_ms),
        }
        if self.rack is not None:
            data["rack"] = self.rack
        return _encode(data)

    @classmethod
    def decode(cls, broker_id: int, data: bytes) -> Self:
        """Read a registration of any version."""
        found = decode_object(data)
        version = member(found, "version", int)
        if version < 1:
            raise ZnodeError(f"unsupported version of broker registration: {shown(data)}")
        if version == 1:
            endpoints: tuple[Endpoint, ...] = (
                Endpoint("PLAINTEXT", member(found, "host", str), member(found, "port", int)),
            )
        else:
            protocols = member({"listener_security_protocol_map": {}} | found, "listener_security_protocol_map", dict)
            endpoints = tuple(_endpoint(text, protocols) for text in member(found, "endpoints", list))
        rack = None if found.get("rack") is None else member(found, "rack", str)
        return cls(broker_id, endpoints, rack, member({"jmx_port": -1} | found, "jmx_port", int))


def _endpoint(text: object, protocols: Mapping[str, object]) -> Endpoint:
    match = _ENDPOINT.fullmatch(text) if isinstance(text, str) else None
    if match is None or len(match[0]) > _MAX_ENDPOINT or int(match[3]) > _MAX_PORT:
        raise ZnodeError(f"not an endpoint: {shown(text)}")
    protocol = protocols.get(match[1], match[1])
    if protocol not in _SECURITY_PROTOCOLS:
        raise ZnodeError(f"not a security protocol: {shown(protocol)}")
    return Endpoint(match[1], match[2], int(match[3]), str(protocol))


class ReplicaAssignment(NamedTuple):
    """The brokers that hold a partition; while it moves, those that are joining and those that are to leave."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_changing(self) -> bool:
        """Whether replicas are joining or are to leave."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when all moves are done."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before any move."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    def reassigned_to(self, target: Sequence[int]) -> "ReplicaAssignment":
        """Return the assignment by which a partition comes to other replicas; what was to join before does not."""
        replicas = tuple(dict.fromkeys([*target, *self.origin]))
        adding = tuple(replica for replica in replicas if replica not in self.origin)
        return ReplicaAssignment(replicas, adding, tuple(replica for replica in self.origin if replica not in target))


class TopicAssignment(NamedTuple):
    """/brokers/topics/T: a topic's id and the replicas of its partitions."""

    topic_id: bytes | None
    partitions: Mapping[int, ReplicaAssignment]

    def encode(self) -> bytes:
        """Return the data, version 3."""
        found = self.partitions.items()
        data: dict[str, object] = {"partitions": {str(p): each.replicas for p, each in found}}
        if self.topic_id is not None:
            data["topic_id"] = uuid_text(self.topic_id)
        data["adding_replicas"] = {str(p): each.adding for p, each in found if each.adding}
        data["removing_replicas"] = {str(p): each.removing for p, each in found if each.removing}
        data["version"] = 3
        return _encode(data)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read any version: older ones have no id, and no replicas on the move."""
        found = decode_object(data)
        none: dict[str, Any] = {"adding_replicas": {}, "removing_replicas": {}}
        adding, removing = (member(none | found, key, dict) for key in none)
        topic_id = None if found.get("topic_id") is None else decode_uuid(member(found, "topic_id", str))
        partitions = {
            number(p): ReplicaAssignment(
                broker_ids(replicas), broker_ids(adding.get(p, [])), broker_ids(removing.get(p, []))
            )
            for p, replicas in member(found, "partitions", dict).items()
        }
        return cls(topic_id, partitions)


class PartitionState(NamedTuple):
    """/brokers/topics/T/partitions/P/state: who leads, since when, and who is in sync.

    `version` is the znode's own, by which writers notice each other; brokers know it as the partition epoch.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    recovery_state: int = RECOVERED
    version: int = 0

    def encode(self) -> bytes:
        """Return the data."""
        data: dict[str, object] = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            "leader_epoch": self.leader_epoch,
            "isr": self.isr,
        }
        if self.recovery_state != RECOVERED:
            data["leader_recovery_state"] = self.recovery_state
        return _encode(data)

    @classmethod
    def decode(cls, data: bytes, version: int = 0) -> Self:
        """Read the data of a znode of this version."""
        found = decode_object(data)
        recovery_state = found.get("leader_recovery_state", RECOVERED)
        if recovery_state not in (RECOVERED, RECOVERING):
            raise ZnodeError(f"not a leader's state of recovery: {shown(recovery_state)}")
        leader_epoch = member(found, "leader_epoch", int)
        if leader_epoch == MAX_INT32:
            raise ZnodeError("no leader can be elected any more: its epoch is the last one")
        return cls(
            member(found, "leader", int),
            leader_epoch,
            broker_ids(found.get("isr")),
            member(found, "controller_epoch", int),
            int(recovery_state),
            version,
        )


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    """Return the data of /controller."""
    return _encode({"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1})


def decode_controller(data: bytes) -> int:
    """Return the id of the broker that is the controller."""
    return member(decode_object(data), "brokerid", int)


def encode_controller_epoch(epoch: int) -> bytes:
    """Return the data of /controller_epoch, the one znode that is not JSON."""
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> int:
    """Return the epoch of the controller elected last."""
    return number(data.decode(errors="replace"))


def encode_config(config: Mapping[str, str]) -> bytes:
    """Return the data of /config/<type>/<name>."""
    return _encode({"version": 1, "config": dict(config)})


def decode_config(data: bytes) -> dict[str, str]:
    """Return the configs; none where there is no data, as Kafka reads it."""
    if not data:
        return {}
    config = decode_object(data).get("config")
    if not isinstance(config, dict):
        return {}
    if not all(isinstance(value, str) for value in config.values()):
        raise ZnodeError(f"a config is no text: {shown(data)}")
    return config


def encode_config_change(entity: str) -> bytes:
    """Return the data of /config/changes/config_change_N; an entity is a type and a name, such as topics/T."""
    return _encode({"version": 2, "entity_path": entity})


def decode_config_change(data: bytes) -> str:
    """Return whose configs have changed. Version 1, of old tools, names the type apart."""
    found = decode_object(data)
    version = member(found, "version", int)
    if version == 1:
        return f"{member(found, 'entity_type', str)}/{member(found, 'entity_name', str)}"
    if version != 2:
        raise ZnodeError(f"unsupported version of a notification: {shown(data)}")
    return member(found, "entity_path", str)


def encode_reassignments(wanted: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """Return the data of /admin/reassign_partitions: the replicas that partitions are to have."""
    partitions = [
        {"topic": partition.topic, "partition": partition.partition, "replicas": list(replicas)}
        for partition, replicas in wanted.items()
    ]
    return _encode({"version": 1, "partitions": partitions})


def decode_reassignments(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas that partitions are to have."""
    return {_partition(each): broker_ids(each.get("replicas")) for each in objects(decode_object(data), "partitions")}


def decode_partitions(data: bytes) -> set[TopicPartition]:
    """Return the partitions that are to be led by their first replicas, or whose in-sync replicas have changed."""
    return {_partition(each) for each in objects(decode_object(data), "partitions")}


def _partition(found: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(member(found, "topic", str), member(found, "partition", int))


def encode_log_dir_event(broker_id: int) -> bytes:
    """Return the data of /log_dir_event_notification/log_dir_event_N: a broker has replicas that it cannot serve."""
    return _encode({"version": 1, "broker": broker_id, "event": _LOG_DIR_FAILED})


def decode_log_dir_event(data: bytes) -> int:
    """Return the broker that has replicas that it cannot serve."""
    return member(decode_object(data), "broker", int)


def encode_cluster_id(cluster_id: str) -> bytes:
    """Return the data of /cluster/id."""
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Return the cluster's id."""
    return member(decode_object(data), "id", str)


def encode_no_features() -> bytes:
    """Return the data of /feature where feature versioning is on and nothing is finalized, as in every 3.9 cluster."""
    return _encode({"features": {}, "version": 2, "status": 1})


class ProducerIdBlock(NamedTuple):
    """/latest_producer_id_block: the producer ids taken last, and by whom; `last` is inclusive."""

    broker_id: int
    first: int
    last: int

    def encode(self) -> bytes:
        """Return the data."""
        block = {"version": 1, "broker": self.broker_id, "block_start": str(self.first), "block_end": str(self.last)}
        return _encode(block)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read a block."""
        found = decode_object(data)
        first, last = (member(found, key, str) for key in ("block_start", "block_end"))
        if not (_LONG.fullmatch(first) and _LONG.fullmatch(last)) or int(last) > MAX_INT64:
            raise ZnodeError(f"not a block of producer ids: {shown(data)}")
        return cls(member(found, "broker", int), int(first), int(last))


def decode_uuid(text: str) -> bytes:
    """Read an id as Kafka spells it."""
    try:
        return parse_uuid(text)
    except ValueError as error:
        raise ZnodeError(f"not an id: {shown(text)}") from error


def _encode(data: Mapping[str, object]) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def parents_of(paths: Sequence[str]) -> list[str]:
    """Return the paths with all their parents, each parent before its children, none twice."""
    found: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")
        for length in range(2, len(parts) + 1):
            found["/".join(parts[:length])] = None
    return list(found)
