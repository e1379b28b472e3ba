"""The configuration keys of the connection to ZooKeeper.

Owns the declarations, and the Java system properties that set a key. Must not know the readers of a value.
Counterpart in Kafka: ZkConfigs.
"""

from collections.abc import Mapping
from typing import Final

from ottla.wire.config_def import ConfigDef, ConfigKey, ConfigType, Importance, Password, at_least

_STORE_TYPE: Final = "Ottla reads PEM. Unset: the extension of the file's name."

ZOOKEEPER_CONFIG = ConfigDef(
    [
        ConfigKey[str | None](
            "zookeeper.connect",
            ConfigType.STRING,
            None,
            doc="The ZooKeeper that keeps the cluster's metadata: HOST:PORT, separated by commas, then the path of the "
            "cluster, if not the root. Without this key a broker is a cluster of its own and keeps its metadata in the "
            "first of its data directories.",
            importance=Importance.HIGH,
        ),
        ConfigKey(
            "zookeeper.session.timeout.ms",
            ConfigType.INT,
            18_000,
            doc="The time without a heartbeat after which ZooKeeper ends a broker's session.",
            importance=Importance.HIGH,
        ),
        ConfigKey[int | None](
            "zookeeper.connection.timeout.ms",
            ConfigType.INT,
            None,
            doc="How long a starting broker waits for ZooKeeper. Unset: `zookeeper.session.timeout.ms`.",
            importance=Importance.HIGH,
        ),
        ConfigKey(
            "zookeeper.max.in.flight.requests",
            ConfigType.INT,
            10,
            at_least(1),
            doc="The largest number of requests to ZooKeeper without a response.",
            importance=Importance.HIGH,
        ),
        ConfigKey(
            "zookeeper.set.acl",
            ConfigType.BOOLEAN,
            False,
            doc="Whether only brokers may change znodes, and read the znodes that hold secrets. The broker must "
            "authenticate to ZooKeeper, by SASL or by its certificate.",
            importance=Importance.HIGH,
        ),
        ConfigKey(
            "zookeeper.ssl.client.enable",
            ConfigType.BOOLEAN,
            False,
            doc="Whether the broker connects to ZooKeeper by TLS.",
        ),
        ConfigKey[str | None](
            "zookeeper.clientCnxnSocket",
            ConfigType.STRING,
            None,
            doc="Required, with any value, where a broker authenticates by its certificate, as in Kafka.",
        ),
        ConfigKey[str | None](
            "zookeeper.ssl.keystore.location",
            ConfigType.STRING,
            None,
            doc="A PEM file with the broker's key and certificates.",
        ),
        ConfigKey[Password | None](
            "zookeeper.ssl.keystore.password",
            ConfigType.PASSWORD,
            None,
            doc="The password of the key in the keystore, if it has one.",
        ),
        ConfigKey[str | None]("zookeeper.ssl.keystore.type", ConfigType.STRING, None, doc=_STORE_TYPE),
        ConfigKey[str | None](
            "zookeeper.ssl.truststore.location",
            ConfigType.STRING,
            None,
            doc="A PEM file with the trusted authorities of servers' certificates. Unset: the system's.",
        ),
        ConfigKey[Password | None](
            "zookeeper.ssl.truststore.password",
            ConfigType.PASSWORD,
            None,
            doc="Unused, because PEM truststores have no password.",
        ),
        ConfigKey[str | None]("zookeeper.ssl.truststore.type", ConfigType.STRING, None, doc=_STORE_TYPE),
        ConfigKey(
            "zookeeper.ssl.protocol",
            ConfigType.STRING,
            "TLSv1.2",
            doc="The version of TLS without `zookeeper.ssl.enabled.protocols`: TLSv1.2 or TLSv1.3.",
            importance=Importance.LOW,
        ),
        ConfigKey[tuple[str, ...] | None](
            "zookeeper.ssl.enabled.protocols",
            ConfigType.LIST,
            None,
            doc="The enabled versions of TLS.",
            importance=Importance.LOW,
        ),
        ConfigKey[tuple[str, ...] | None](
            "zookeeper.ssl.cipher.suites",
            ConfigType.LIST,
            None,
            doc="The enabled cipher suites of TLSv1.2, by Java's names.",
            importance=Importance.LOW,
        ),
        ConfigKey(
            "zookeeper.ssl.endpoint.identification.algorithm",
            ConfigType.STRING,
            "HTTPS",
            doc="HTTPS: the server's certificate must have its host name. Any other value: it need not.",
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
    """Return the values of the keys that Java's system properties set."""
    texts = {key: properties[name] for name, key in _PROPERTIES.items() if name in properties}
    if _HOSTNAME_VERIFICATION in properties:
        is_wanted = properties[_HOSTNAME_VERIFICATION].lower() == "true"
        texts[_PROPERTIES[_HOSTNAME_VERIFICATION]] = "HTTPS" if is_wanted else ""
    return texts
