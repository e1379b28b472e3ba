"""Kafka's znodes: the path of each, and the encoding of its data.

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
# The entity whose configs hold for every broker, client, user or address without configs of its own.
DEFAULT_ENTITY: Final = "<default>"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "config_change_"
CLUSTER_ID: Final = "/cluster/id"
FEATURE: Final = "/feature"
ISR_CHANGE_NOTIFICATION: Final = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATION: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "log_dir_event_"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"

# A starting broker creates these and their parents where they are missing.
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

# With ACLs only brokers may read these, because they hold credentials and passwords.
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
    """Return the broker id of a registration's name."""
    return number(name.decode())


def topic_path(topic: str) -> str:
    """Return the path of a topic."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """Return the parent path of a topic's partitions."""
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
    """Return the path of one broker's configs, or of all brokers' (DEFAULT_ENTITY)."""
    return f"{BROKER_CONFIGS}/{entity}"


def delete_topic_path(topic: str) -> str:
    """Return the path that marks a topic for deletion."""
    return f"{DELETE_TOPICS}/{topic}"


def is_open(path: str) -> bool:
    """Return whether every client may write a znode, even with ACLs, because old consumers write there."""
    return path == "/consumers"


def is_sensitive(path: str) -> bool:
    """Return whether only brokers may read a znode that has ACLs."""
    return path.startswith(_SENSITIVE_PATHS)


def name_of(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]


class Endpoint(NamedTuple):
    """A broker's advertised address for one listener."""

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
        """Return the data. The first plaintext endpoint is at the top level too, for old clients."""
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
        """Return the registration that is encoded in any version."""
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
    """The brokers that hold a partition; during a reassignment, also those that join and those that leave."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_changing(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    def reassigned_to(self, target: Sequence[int]) -> "ReplicaAssignment":
        """Return the assignment that moves a partition to `target`; replicas that were joining are dropped."""
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
        """Return the assignment that is encoded in any version; older ones have no id and no reassignment."""
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
    """/brokers/topics/T/partitions/P/state: the leader, its epoch, and the ISR.

    `version` is the znode's own, on which updates are conditional; for brokers it is the partition epoch.
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
        """Return the state in a znode of this version."""
        found = decode_object(data)
        recovery_state = found.get("leader_recovery_state", RECOVERED)
        if recovery_state not in (RECOVERED, RECOVERING):
            raise ZnodeError(f"not a leader recovery state: {shown(recovery_state)}")
        leader_epoch = member(found, "leader_epoch", int)
        if leader_epoch == MAX_INT32:
            raise ZnodeError("no leader can be elected any more: the leader epoch is the last one")
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
    """Return the controller's broker id."""
    return member(decode_object(data), "brokerid", int)


def encode_controller_epoch(epoch: int) -> bytes:
    """Return the data of /controller_epoch, the only znode that is not JSON."""
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> int:
    """Return the epoch of the controller elected last."""
    return number(data.decode(errors="replace"))


def encode_config(config: Mapping[str, str]) -> bytes:
    """Return the data of /config/<type>/<name>."""
    return _encode({"version": 1, "config": dict(config)})


def decode_config(data: bytes) -> dict[str, str]:
    """Return the configs; an empty dict for empty data or without `config`, as Kafka does."""
    if not data:
        return {}
    config = decode_object(data).get("config")
    if not isinstance(config, dict):
        return {}
    if not all(isinstance(value, str) for value in config.values()):
        raise ZnodeError(f"a config is not a string: {shown(data)}")
    return config


def encode_config_change(entity: str) -> bytes:
    """Return the data of /config/changes/config_change_N; an entity is a type and a name, such as topics/T."""
    return _encode({"version": 2, "entity_path": entity})


def decode_config_change(data: bytes) -> str:
    """Return the entity whose configs changed. Old tools write version 1, with the type in a key of its own."""
    found = decode_object(data)
    version = member(found, "version", int)
    if version == 1:
        return f"{member(found, 'entity_type', str)}/{member(found, 'entity_name', str)}"
    if version != 2:
        raise ZnodeError(f"unsupported version of a notification: {shown(data)}")
    return member(found, "entity_path", str)


def encode_reassignments(wanted: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """Return the data of /admin/reassign_partitions: the target replicas of partitions."""
    partitions = [
        {"topic": partition.topic, "partition": partition.partition, "replicas": list(replicas)}
        for partition, replicas in wanted.items()
    ]
    return _encode({"version": 1, "partitions": partitions})


def decode_reassignments(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the target replicas of partitions."""
    return {_partition(each): broker_ids(each.get("replicas")) for each in objects(decode_object(data), "partitions")}


def decode_partitions(data: bytes) -> set[TopicPartition]:
    """Return the partitions of a preferred replica election, or of an ISR change notification."""
    return {_partition(each) for each in objects(decode_object(data), "partitions")}


def _partition(found: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(member(found, "topic", str), member(found, "partition", int))


def encode_log_dir_event(broker_id: int) -> bytes:
    """Return the data of /log_dir_event_notification/log_dir_event_N: a log directory of the broker failed."""
    return _encode({"version": 1, "broker": broker_id, "event": _LOG_DIR_FAILED})


def decode_log_dir_event(data: bytes) -> int:
    """Return the broker whose log directory failed."""
    return member(decode_object(data), "broker", int)


def encode_cluster_id(cluster_id: str) -> bytes:
    """Return the data of /cluster/id."""
    return _encode({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Return the cluster's id."""
    return member(decode_object(data), "id", str)


def encode_no_features() -> bytes:
    """Return the data of /feature with feature versioning and no finalized feature, as in every 3.9 cluster."""
    return _encode({"features": {}, "version": 2, "status": 1})


class ProducerIdBlock(NamedTuple):
    """/latest_producer_id_block: the block of producer ids allocated last, and its broker; `last` is inclusive."""

    broker_id: int
    first: int
    last: int

    def encode(self) -> bytes:
        """Return the data."""
        block = {"version": 1, "broker": self.broker_id, "block_start": str(self.first), "block_end": str(self.last)}
        return _encode(block)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the encoded block."""
        found = decode_object(data)
        first, last = (member(found, key, str) for key in ("block_start", "block_end"))
        if not (_LONG.fullmatch(first) and _LONG.fullmatch(last)) or int(last) > MAX_INT64:
            raise ZnodeError(f"not a block of producer ids: {shown(data)}")
        return cls(member(found, "broker", int), int(first), int(last))


def decode_uuid(text: str) -> bytes:
    """Return the uuid that Kafka's text form spells."""
    try:
        return parse_uuid(text)
    except ValueError as error:
        raise ZnodeError(f"not a uuid: {shown(text)}") from error


def _encode(data: Mapping[str, object]) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def parents_of(paths: Sequence[str]) -> list[str]:
    """Return the paths with all their parents; each once, and parents before their children."""
    found: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")
        for length in range(2, len(parts) + 1):
            found["/".join(parts[:length])] = None
    return list(found)
