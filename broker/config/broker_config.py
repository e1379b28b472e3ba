"""The broker's configuration: the broker's own keys, and one object with the values of all keys.

Owns the sources of values (a properties file, the environment, the command line) and the rules between keys.
`ottla.log.config` and `ottla.coordinator.config` declare the keys of storage and groups. Must not know which code reads
a value. Counterparts in Kafka: KafkaConfig, ServerConfigs, and KafkaDockerWrapper for the environment.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from ottla.broker.config.connection_limits import CONNECTION_CONFIG, ConnectionLimits, read_connection_limits
from ottla.broker.config.ignored_keys import IDLE_CONFIG, check_refused, is_refused, without_effect
from ottla.broker.config.listeners import LISTENER_CONFIG, Address, Listener, read_listeners, with_address
from ottla.broker.config.protocol_versions import NEWEST, OLDEST, version_fault
from ottla.broker.config.throttle import QUOTA_CONFIG
from ottla.coordinator.config import GROUP_CONFIG
from ottla.coordinator.transaction_config import TRANSACTION_CONFIG
from ottla.log.config import BROKER_LOG_CONFIG, check_broker_values
from ottla.wire.config_def import Check, ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, at_least, nearest
from ottla.wire.records.compression import Compression
from ottla.zk.config import ZOOKEEPER_CONFIG, from_system_properties

ENVIRONMENT_PREFIX = "KAFKA_"
# Variables that Kafka's container image reserves for its start script.
NOT_FROM_ENVIRONMENT = re.compile(
    "KAFKA_(VERSION|HEAP_OPTS|LOG4J_OPTS|OPTS|JMX_OPTS|JVM_PERFORMANCE_OPTS|GC_LOG_OPTS|LOG4J_ROOT_LOGLEVEL|"
    "LOG4J_LOGGERS|TOOLS_LOG4J_LOGLEVEL|JMX_HOSTNAME)"
)

# The only class of Kafka's own that chooses replicas for consumers.
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def _selector_fault(name: str) -> str | None:
    if name in ("", RACK_AWARE):
        return None
    return f"Ottla cannot run Java classes; unset the key, or set it to {RACK_AWARE}"


class BrokerConfig:
    """The values of one broker: all in `values` by Kafka's names, those of the broker's own keys as attributes too.

    `texts` holds the keys that were set, declared or not, with their unparsed values. `system_properties` are Java's.
    """

    __slots__ = (
        "advertised_listeners",
        "connection_limits",
        "inter_broker_listener_name",
        "listeners",
        "log_dirs",
        "system_properties",
        "texts",
        "values",
        "without_effect",
    )

    texts: Mapping[str, str]
    values: Mapping[str, Any]
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    inter_broker_listener_name: str
    connection_limits: ConnectionLimits
    log_dirs: tuple[Path, ...]
    system_properties: Mapping[str, str]
    without_effect: list[str]

    broker_id = ConfigKey(
        "broker.id",
        ConfigType.INT,
        -1,
        doc="The id of this broker. Unset: the next one of the cluster's counter, kept in the data directory.",
        importance=Importance.HIGH,
    )
    node_id = ConfigKey(
        "node.id",
        ConfigType.INT,
        -1,
        doc="Another name of `broker.id`; the two must agree.",
        importance=Importance.HIGH,
    )
    broker_id_generation_enable = ConfigKey(
        "broker.id.generation.enable", ConfigType.BOOLEAN, True, doc="Whether a broker without a `broker.id` gets one."
    )
    reserved_broker_max_id = ConfigKey(
        "reserved.broker.max.id",
        ConfigType.INT,
        1000,
        at_least(0),
        doc="The highest `broker.id` that may be set; those of the cluster's counter begin above it.",
    )
    num_recovery_threads_per_data_dir = ConfigKey(
        "num.recovery.threads.per.data.dir",
        ConfigType.INT,
        1,
        at_least(1),
        doc="How many logs of one data directory are recovered at a time after a crash, each by a process.",
        importance=Importance.HIGH,
        dynamic="cluster-wide",
    )
    broker_rack = ConfigKey[str | None](
        "broker.rack", ConfigType.STRING, None, doc="The rack of this broker, sent to clients."
    )
    replica_selector_class = ConfigKey[str | None](
        "replica.selector.class",
        ConfigType.STRING,
        None,
        Check("", _selector_fault),
        doc="The replica that consumers read from. Unset: the leader. "
        f"`{RACK_AWARE}`: a replica in the rack of the consumer (`client.rack`).",
    )
    auto_create_topics_enable = ConfigKey(
        "auto.create.topics.enable",
        ConfigType.BOOLEAN,
        True,
        doc="Whether a topic is created when a client asks for it and it does not exist.",
        importance=Importance.HIGH,
    )
    delete_topic_enable = ConfigKey(
        "delete.topic.enable",
        ConfigType.BOOLEAN,
        True,
        doc="Whether topics may be deleted.",
        importance=Importance.HIGH,
    )
    num_partitions = ConfigKey(
        "num.partitions",
        ConfigType.INT,
        1,
        at_least(1),
        doc="Partitions of a topic that is created without a number of them.",
    )
    default_replication_factor = ConfigKey(
        "default.replication.factor",
        ConfigType.INT,
        1,
        doc="Replicas of a topic that is created without a number of them.",
    )
    socket_request_max_bytes = ConfigKey(
        "socket.request.max.bytes",
        ConfigType.INT,
        104857600,
        at_least(1),
        doc="The largest request. A connection that announces a larger one is closed.",
        importance=Importance.HIGH,
    )
    socket_send_buffer_bytes = ConfigKey(
        "socket.send.buffer.bytes",
        ConfigType.INT,
        102400,
        doc="The system's send buffer of a connection (SO_SNDBUF); -1 leaves it to the system.",
        importance=Importance.HIGH,
    )
    socket_listen_backlog_size = ConfigKey(
        "socket.listen.backlog.size",
        ConfigType.INT,
        50,
        at_least(1),
        doc="How many connections may wait to be accepted.",
    )
    connections_max_idle_ms = ConfigKey(
        "connections.max.idle.ms", ConfigType.LONG, 600000, doc="How long a connection may be idle before it is closed."
    )
    fetch_max_bytes = ConfigKey(
        "fetch.max.bytes",
        ConfigType.INT,
        57671680,
        at_least(1024),
        doc="The most bytes of records in the response to a fetch, whatever the client asks for.",
    )
    max_incremental_fetch_session_cache_slots = ConfigKey(
        "max.incremental.fetch.session.cache.slots",
        ConfigType.INT,
        1000,
        at_least(0),
        doc="How many fetch sessions are kept.",
    )
    max_request_partition_size_limit = ConfigKey(
        "max.request.partition.size.limit",
        ConfigType.INT,
        2000,
        at_least(1),
        doc="The most partitions in one response to DescribeTopicPartitions.",
    )
    auto_leader_rebalance_enable = ConfigKey(
        "auto.leader.rebalance.enable",
        ConfigType.BOOLEAN,
        True,
        doc="Whether preferred replicas become leaders again when a broker leads too few of its partitions.",
        importance=Importance.HIGH,
    )
    leader_imbalance_check_interval_seconds = ConfigKey(
        "leader.imbalance.check.interval.seconds",
        ConfigType.LONG,
        300,
        at_least(1),
        doc="How often the controller checks whether preferred replicas lead.",
        importance=Importance.HIGH,
    )
    leader_imbalance_per_broker_percentage = ConfigKey(
        "leader.imbalance.per.broker.percentage",
        ConfigType.INT,
        10,
        doc="The percentage of a broker's preferred partitions that other brokers may lead.",
        importance=Importance.HIGH,
    )
    replica_lag_time_max_ms = ConfigKey(
        "replica.lag.time.max.ms",
        ConfigType.LONG,
        30000,
        doc="How long a follower may lag before it leaves the in-sync replicas.",
        importance=Importance.HIGH,
    )
    replica_fetch_max_bytes = ConfigKey(
        "replica.fetch.max.bytes",
        ConfigType.INT,
        1048576,
        at_least(0),
        doc="The most bytes of one partition that a follower fetches at a time; a larger batch comes all the same.",
    )
    replica_fetch_response_max_bytes = ConfigKey(
        "replica.fetch.response.max.bytes",
        ConfigType.INT,
        10485760,
        at_least(0),
        doc="The most bytes of all partitions together that a follower fetches at a time.",
    )
    replica_fetch_min_bytes = ConfigKey(
        "replica.fetch.min.bytes",
        ConfigType.INT,
        1,
        doc="Bytes that must be available before a leader answers a follower's fetch.",
        importance=Importance.HIGH,
    )
    replica_fetch_wait_max_ms = ConfigKey(
        "replica.fetch.wait.max.ms",
        ConfigType.INT,
        500,
        doc="How long a leader lets a follower's fetch wait; at most `replica.lag.time.max.ms`.",
        importance=Importance.HIGH,
    )
    replica_socket_timeout_ms = ConfigKey(
        "replica.socket.timeout.ms",
        ConfigType.INT,
        30000,
        doc="How long a follower waits for a response; at least `replica.fetch.wait.max.ms`.",
        importance=Importance.HIGH,
    )
    replica_fetch_backoff_ms = ConfigKey(
        "replica.fetch.backoff.ms",
        ConfigType.INT,
        1000,
        at_least(0),
        doc="How long a follower pauses after a fetch that failed.",
    )
    num_replica_fetchers = ConfigKey(
        "num.replica.fetchers",
        ConfigType.INT,
        1,
        doc="Connections over which a broker fetches from one leader; each partition uses one of them.",
        importance=Importance.HIGH,
        dynamic="cluster-wide",
    )
    replica_high_watermark_checkpoint_interval_ms = ConfigKey(
        "replica.high.watermark.checkpoint.interval.ms",
        ConfigType.LONG,
        5000,
        doc="How often the high watermarks are written to disk.",
        importance=Importance.HIGH,
    )
    inter_broker_protocol_version = ConfigKey(
        "inter.broker.protocol.version",
        ConfigType.STRING,
        NEWEST,
        Check(f"[{OLDEST}, ..., {NEWEST}]", version_fault),
        doc="The Kafka release whose protocol brokers use among themselves. While a cluster is upgraded broker by "
        "broker, it is that of the oldest broker.",
    )
    controller_socket_timeout_ms = ConfigKey(
        "controller.socket.timeout.ms",
        ConfigType.INT,
        30000,
        doc="How long the controller and the other brokers wait for each other's responses.",
    )
    controlled_shutdown_enable = ConfigKey(
        "controlled.shutdown.enable",
        ConfigType.BOOLEAN,
        True,
        doc="Whether a broker moves leadership to other brokers before it stops.",
    )
    controlled_shutdown_max_retries = ConfigKey(
        "controlled.shutdown.max.retries",
        ConfigType.INT,
        3,
        doc="How often a stopping broker asks the controller to move its leadership, until that succeeds.",
    )
    controlled_shutdown_retry_backoff_ms = ConfigKey(
        "controlled.shutdown.retry.backoff.ms",
        ConfigType.LONG,
        5000,
        doc="How long a stopping broker waits before it asks again.",
    )

    def __init__(self, texts: Mapping[str, str], system_properties: Mapping[str, str] = MappingProxyType({})) -> None:
        """Parse the values of declared keys; ConfigError for one that is invalid, refused, or contradicts another."""
        self.texts = dict(texts)
        self.system_properties = system_properties
        for name, text in texts.items():
            check_refused(name, text)
        values = BROKER_CONFIG.parse_all(texts)
        self.values = values
        check_broker_values(values)
        _check_codec(values["offsets.topic.compression.codec"])
        _check_replica_wait(values)
        self.without_effect = sorted(
            n for n in texts if n in IDLE_CONFIG or (n not in BROKER_CONFIG and n in without_effect())
        )
        _agree_on_broker_id(values, is_kraft=bool(texts.get("process.roles", "").strip()))
        found = read_listeners(values, texts)
        self.listeners, self.advertised_listeners, self.inter_broker_listener_name = found
        names = [listener.name for listener in self.listeners]
        self.connection_limits = read_connection_limits(values, texts, names, self.inter_broker_listener_name)
        directories = values["log.dirs"] if values["log.dirs"] is not None else values["log.dir"]
        self.log_dirs = tuple(Path(part.strip()) for part in directories.split(",") if part.strip())
        if not self.log_dirs:
            raise ConfigError("At least one log directory must be defined via log.dirs or log.dir.")

    @classmethod
    def load(
        cls,
        file: Path | None,
        overrides: Mapping[str, str],
        environ: Mapping[str, str],
        *,
        defaults: Mapping[str, str] = MappingProxyType({}),
        address: Address = Address(),  # noqa: B008 - immutable
    ) -> tuple[Self, list[str]]:
        """Return the configuration and its warnings. Overrides count before the environment, this before the file.

        `defaults` replace Kafka's. `address` is that of the only listener, whatever the listener keys say.
        """
        properties = system_properties(environ)
        texts = {
            **defaults,
            **from_system_properties(properties),
            **(read_properties(file) if file else {}),
            **from_environment(environ),
            **overrides,
        }
        if address != Address():
            texts["listeners"] = with_address(texts.get("listeners", LISTENER_CONFIG["listeners"].default), address)
        return cls(texts, properties), [warning for name in texts if (warning := _warning(name))]


BROKER_CONFIG = ConfigDef(
    [
        *(key for key in vars(BrokerConfig).values() if isinstance(key, ConfigKey)),
        *LISTENER_CONFIG.values(),
        *CONNECTION_CONFIG.values(),
        *BROKER_LOG_CONFIG.values(),
        *GROUP_CONFIG.values(),
        *TRANSACTION_CONFIG.values(),
        *QUOTA_CONFIG.values(),
        *ZOOKEEPER_CONFIG.values(),
        *IDLE_CONFIG.values(),
    ]
)


def _check_codec(number: int) -> None:
    if number not in tuple(Compression):
        raise ConfigError(f"Unknown compression type id: {number}, in offsets.topic.compression.codec")


def _check_replica_wait(values: Mapping[str, Any]) -> None:
    wait_ms = values["replica.fetch.wait.max.ms"]
    if wait_ms > values["replica.socket.timeout.ms"]:
        raise ConfigError(
            "requirement failed: replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to "
            "prevent unnecessary socket timeouts"
        )
    if wait_ms > values["replica.lag.time.max.ms"]:
        raise ConfigError(
            "requirement failed: replica.fetch.wait.max.ms should always be less than or equal to "
            "replica.lag.time.max.ms to prevent frequent changes in ISR"
        )


def _agree_on_broker_id(values: dict[str, Any], *, is_kraft: bool) -> None:
    """Give `broker.id` and `node.id` the same value, and check it as Kafka does."""
    broker_id, node_id = values["broker.id"], values["node.id"]
    if broker_id != -1 and node_id not in (-1, broker_id):
        raise ConfigError("You must set `node.id` to the same value as `broker.id`.")
    values["broker.id"] = values["node.id"] = broker_id if broker_id != -1 else node_id
    if not values["broker.id.generation.enable"] or is_kraft:
        if values["broker.id"] < 0:
            raise ConfigError("broker.id must be greater than or equal to 0")
    elif not -1 <= values["broker.id"] <= values["reserved.broker.max.id"]:
        raise ConfigError(
            "broker.id must be greater than or equal to -1 and not greater than reserved.broker.max.id "
            f"({values['reserved.broker.max.id']})"
        )


def is_known(name: str) -> bool:
    """Whether Kafka has this key."""
    return name in BROKER_CONFIG or is_refused(name) or name.startswith("listener.name.") or name in without_effect()


def similar_key(name: str) -> str | None:
    """Return the known key that a misspelt name most likely means."""
    return nearest(name, [*BROKER_CONFIG, *without_effect()])


def _warning(name: str) -> str | None:
    if is_known(name):
        return None
    guess = similar_key(name)
    return f"unknown configuration {name} is ignored" + (f"; did you mean {guess}?" if guess else "")


def read_properties(file: Path) -> dict[str, str]:
    """Read a file in Java's properties format; OSError when it cannot be read."""
    import javaproperties  # takes 70 ms, which a start without a file saves

    with file.open("rb") as stream:
        try:
            return dict(javaproperties.load(stream))
        except ValueError as error:
            raise ConfigError(f"{file}: {error}") from error


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that KAFKA_* variables set, named as by Kafka's container image."""
    return {
        name.replace(ENVIRONMENT_PREFIX, "").lower().replace("_", ".").replace("...", "-").replace("..", "_"): value
        for name, value in environ.items()
        if name.startswith(ENVIRONMENT_PREFIX) and not NOT_FROM_ENVIRONMENT.fullmatch(name)
    }


def system_properties(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the -D options of KAFKA_OPTS, which Kafka's start script passes to Java as system properties."""
    options = [each[2:].partition("=") for each in environ.get("KAFKA_OPTS", "").split() if each.startswith("-D")]
    return {name: value for name, _, value in options}
