"""The keys that say which ZooKeeper keeps a cluster's metadata, and how it is spoken to.

Owns the declarations, and which of Java's system properties stand for keys that are not set. Must not know who reads a
value. Counterpart in Kafka: ZkConfigs.
"""

from collections.abc import Mapping
from typing import Final

from ottla.wire.config_def import ConfigDef, ConfigKey, ConfigType, Importance, Password, at_least

_STORE_TYPE: Final = "PEM is what Ottla reads. Unset, the end of the file's name says it."

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
        ConfigKey(
            "zookeeper.set.acl",
            ConfigType.BOOLEAN,
            False,
            doc="Whether only brokers may change znodes, and read those that hold secrets. It takes a broker that "
            "ZooKeeper knows, by SASL or by its certificate.",
            importance=Importance.HIGH,
        ),
        ConfigKey(
            "zookeeper.ssl.client.enable",
            ConfigType.BOOLEAN,
            False,
            doc="Whether the connections to ZooKeeper have TLS.",
        ),
        ConfigKey[str | None](
            "zookeeper.clientCnxnSocket",
            ConfigType.STRING,
            None,
            doc="Set, as Kafka wants it, where a certificate says who a broker is; any value will do.",
        ),
        ConfigKey[str | None](
            "zookeeper.ssl.keystore.location",
            ConfigType.STRING,
            None,
            doc="A PEM file with the broker's key and certificates.",
        ),
        ConfigKey[Password | None](
            "zookeeper.ssl.keystore.password", ConfigType.PASSWORD, None, doc="The password of that key, if it has one."
        ),
        ConfigKey[str | None]("zookeeper.ssl.keystore.type", ConfigType.STRING, None, doc=_STORE_TYPE),
        ConfigKey[str | None](
            "zookeeper.ssl.truststore.location",
            ConfigType.STRING,
            None,
            doc="A PEM file with the authorities that may have signed a server's certificate; unset, the system's.",
        ),
        ConfigKey[Password | None](
            "zookeeper.ssl.truststore.password", ConfigType.PASSWORD, None, doc="PEM files need none of these."
        ),
        ConfigKey[str | None]("zookeeper.ssl.truststore.type", ConfigType.STRING, None, doc=_STORE_TYPE),
        ConfigKey(
            "zookeeper.ssl.protocol",
            ConfigType.STRING,
            "TLSv1.2",
            doc="The version of TLS, where no others are enabled: TLSv1.2 or TLSv1.3.",
            importance=Importance.LOW,
        ),
        ConfigKey[tuple[str, ...] | None](
            "zookeeper.ssl.enabled.protocols",
            ConfigType.LIST,
            None,
            doc="The versions of TLS that will do.",
            importance=Importance.LOW,
        ),
        ConfigKey[tuple[str, ...] | None](
            "zookeeper.ssl.cipher.suites",
            ConfigType.LIST,
            None,
            doc="The cipher suites of TLSv1.2 that will do, by Java's names.",
            importance=Importance.LOW,
        ),
        ConfigKey(
            "zookeeper.ssl.endpoint.identification.algorithm",
            ConfigType.STRING,
            "HTTPS",
            doc="HTTPS has the server's name looked for in its certificate; anything else does not.",
            importance=Importance.LOW,
        ),
    ]
)

_PROPERTIES: Final = {
    "zookeeper.client.secure": "zookeeper.ssl.client.enable",
    "zookeeper.clientCnxnSocket": "zookeeper.clientCnxnSocket",
    "zookeeper.ssl.keyStore.location": "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.keyStore.password": "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.keyStore.type": "zookeeper.ssl.keystore.type",
    "zookeeper.ssl.trustStore.location": "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.trustStore.password": "zookeeper.ssl.truststore.password",
    "zookeeper.ssl.trustStore.type": "zookeeper.ssl.truststore.type",
    "zookeeper.ssl.protocol": "zookeeper.ssl.protocol",
    "zookeeper.ssl.enabledProtocols": "zookeeper.ssl.enabled.protocols",
    "zookeeper.ssl.ciphersuites": "zookeeper.ssl.cipher.suites",
    "zookeeper.ssl.hostnameVerification": "zookeeper.ssl.endpoint.identification.algorithm",
    "zookeeper.ssl.crl": "zookeeper.ssl.crl.enable",
    "zookeeper.ssl.ocsp": "zookeeper.ssl.ocsp.enable",
}
_HOSTNAME_VERIFICATION: Final = "zookeeper.ssl.hostnameVerification"


def from_system_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that properties of ZooKeeper's client stand for, where nothing else sets them."""
    texts = {key: properties[name] for name, key in _PROPERTIES.items() if name in properties}
    if _HOSTNAME_VERIFICATION in properties:
        is_wanted = properties[_HOSTNAME_VERIFICATION].lower() == "true"
        texts[_PROPERTIES[_HOSTNAME_VERIFICATION]] = "HTTPS" if is_wanted else ""
    return texts
