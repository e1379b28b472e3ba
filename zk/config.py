"""The keys that say which ZooKeeper keeps a cluster's metadata, and how it is spoken to.

Owns the declarations. Must not know who reads a value. Counterpart in Kafka: ZkConfigs.
"""

from ottla.wire.config_def import ConfigDef, ConfigKey, ConfigType, Importance, at_least

ZOOKEEPER_CONFIG = ConfigDef(
    [
        ConfigKey[str | None](
            "zookeeper.connect",
            ConfigType.STRING,
            None,
            doc="The ZooKeeper that keeps the cluster's metadata: HOST:PORT, separated by commas, and then the path "
            "under which the cluster lies, if not the root. Without it a broker is a cluster of its own and keeps "
            "its metadata in the first of its data directories.",
            importance=Importance.HIGH,
        ),
        ConfigKey(
            "zookeeper.session.timeout.ms",
            ConfigType.INT,
            18_000,
            doc="After how long without a sign of a broker ZooKeeper takes it for gone.",
            importance=Importance.HIGH,
        ),
        ConfigKey[int | None](
            "zookeeper.connection.timeout.ms",
            ConfigType.INT,
            None,
            doc="How long a start waits for ZooKeeper; `zookeeper.session.timeout.ms` unless set.",
            importance=Importance.HIGH,
        ),
        ConfigKey(
            "zookeeper.max.in.flight.requests",
            ConfigType.INT,
            10,
            at_least(1),
            doc="How many requests may wait for ZooKeeper's answers at a time.",
            importance=Importance.HIGH,
        ),
    ]
)
