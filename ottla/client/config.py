"""Kafka's client properties: declared once, read from files, profiles and options.

Owns the keys that all clients share. Must not know what a command does with a connection.
Counterparts in Kafka: CommonClientConfigs, SslConfigs, SaslConfigs, AdminClientConfig.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ottla.wire.config_def import Between, ConfigDef, ConfigError, ConfigKey, ConfigType, OneOf, Password, at_least

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_NO_VALUE: Final[str | None] = None
_NO_SECRET: Final[Password | None] = None
_REFERENCE: Final = re.compile(r"\$\{(?P<provider>[^}:]*):(?P<path>[^}:]*)(?::(?P<key>[^}]*))?\}")


def _key(name: str, kind: ConfigType, default: Any, doc: str, validator: Any = None) -> ConfigKey[Any]:
    return ConfigKey(name, kind, default, validator, doc)


KEYS: Final = ConfigDef(
    [
        _key("bootstrap.servers", ConfigType.LIST, ("localhost:9092",), "Addresses of brokers to connect to first."),
        _key("client.id", ConfigType.STRING, "ottla", "The client's name in requests."),
        _key(
            "security.protocol",
            ConfigType.STRING,
            PLAINTEXT,
            "Whether the connection is encrypted (SSL) and the client authenticates itself (SASL).",
            OneOf(PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL),
        ),
        _key("request.timeout.ms", ConfigType.INT, 30_000, "How long to wait for one response.", at_least(0)),
        _key(
            "default.api.timeout.ms",
            ConfigType.INT,
            60_000,
            "How long an operation may take, retries included.",
            at_least(0),
        ),
        _key(
            "socket.connection.setup.timeout.ms",
            ConfigType.LONG,
            10_000,
            "How long to wait for a connection.",
            at_least(1),
        ),
        _key("retry.backoff.ms", ConfigType.LONG, 100, "The first pause between two attempts.", at_least(0)),
        _key("retry.backoff.max.ms", ConfigType.LONG, 1_000, "The longest pause between two attempts.", at_least(0)),
        _key("metadata.max.age.ms", ConfigType.LONG, 300_000, "How long metadata counts as fresh.", at_least(0)),
        # TLS
        _key("ssl.truststore.type", ConfigType.STRING, "JKS", "The format of the trust store: PEM."),
        _key("ssl.truststore.location", ConfigType.STRING, _NO_VALUE, "A file with the certificates to trust."),
        _key("ssl.truststore.password", ConfigType.PASSWORD, _NO_SECRET, "PEM stores have none."),
        _key("ssl.truststore.certificates", ConfigType.PASSWORD, _NO_SECRET, "The certificates to trust, as PEM text."),
        _key("ssl.keystore.type", ConfigType.STRING, "JKS", "The format of the key store: PEM."),
        _key("ssl.keystore.location", ConfigType.STRING, _NO_VALUE, "A file with the client's key and certificates."),
        _key("ssl.keystore.password", ConfigType.PASSWORD, _NO_SECRET, "PEM stores have none."),
        _key("ssl.keystore.key", ConfigType.PASSWORD, _NO_SECRET, "The client's private key, as PEM text."),
        _key(
            "ssl.keystore.certificate.chain",
            ConfigType.PASSWORD,
            _NO_SECRET,
            "The client's certificates, as PEM text.",
        ),
        _key("ssl.key.password", ConfigType.PASSWORD, _NO_SECRET, "The password of the client's private key."),
        _key(
            "ssl.endpoint.identification.algorithm",
            ConfigType.STRING,
            "https",
            "https: check the broker's name against its certificate; empty: do not.",
            OneOf("https", ""),
        ),
        _key(
            "ssl.enabled.protocols",
            ConfigType.LIST,
            ("TLSv1.2", "TLSv1.3"),
            "Versions of TLS to offer.",
            OneOf("TLSv1.2", "TLSv1.3"),
        ),
        _key("ssl.cipher.suites", ConfigType.LIST, (), "Cipher suites of TLSv1.2 to offer, by OpenSSL's names."),
        # SASL
        _key(
            "sasl.mechanism",
            ConfigType.STRING,
            "GSSAPI",
            f"How the client authenticates itself: {', '.join(MECHANISMS)}.",
        ),
        _key("sasl.jaas.config", ConfigType.PASSWORD, _NO_SECRET, "The login module with the user and the password."),
        # Consumers and producers
        _key("acks", ConfigType.STRING, "all", "The replicas that must have a record.", OneOf("all", "-1", "0", "1")),
        _key(
            "compression.type",
            ConfigType.STRING,
            "none",
            "The codec of produced batches.",
            OneOf("none", "gzip", "snappy", "lz4", "zstd"),
        ),
        _key("enable.idempotence", ConfigType.BOOLEAN, True, "Whether a retried record is appended only once."),
        _key("batch.size", ConfigType.INT, 16_384, "The largest batch in bytes.", at_least(0)),
        _key("linger.ms", ConfigType.LONG, 5, "How long a batch waits for more records.", at_least(0)),
        _key("max.request.size", ConfigType.INT, 1_048_576, "The largest produce request in bytes.", at_least(0)),
        _key("buffer.memory", ConfigType.LONG, 33_554_432, "Bytes of records that may be unsent.", at_least(0)),
        _key("delivery.timeout.ms", ConfigType.INT, 120_000, "How long delivering a record may take.", at_least(0)),
        _key("max.block.ms", ConfigType.LONG, 60_000, "How long a producer waits for room or metadata.", at_least(0)),
        _key("retries", ConfigType.INT, 2_147_483_647, "How often a batch is sent again.", at_least(0)),
        _key(
            "max.in.flight.requests.per.connection",
            ConfigType.INT,
            5,
            "The most produce requests to a broker without a response.",
            at_least(1),
        ),
        _key("transactional.id", ConfigType.STRING, _NO_VALUE, "The name of the producer's transactions."),
        _key("group.id", ConfigType.STRING, _NO_VALUE, "The consumer group."),
        _key("group.instance.id", ConfigType.STRING, _NO_VALUE, "The name of a static member."),
        _key(
            "partition.assignment.strategy",
            ConfigType.LIST,
            ("range",),
            "Assignors of a group's partitions, best first: range, roundrobin, or the name of Kafka's class.",
        ),
        _key("session.timeout.ms", ConfigType.INT, 45_000, "How long a member may send no heartbeat.", at_least(1)),
        _key("heartbeat.interval.ms", ConfigType.INT, 3_000, "The time between two heartbeats.", at_least(1)),
        _key("max.poll.interval.ms", ConfigType.INT, 300_000, "How long a rebalance may take.", at_least(1)),
        _key("max.poll.records", ConfigType.INT, 500, "Records that one poll returns.", at_least(1)),
        _key("enable.auto.commit", ConfigType.BOOLEAN, True, "Whether offsets are committed as records are read."),
        _key("auto.commit.interval.ms", ConfigType.INT, 5_000, "The time between two automatic commits.", at_least(0)),
        _key(
            "auto.offset.reset",
            ConfigType.STRING,
            "latest",
            "The offset to begin at without a committed one.",
            OneOf("earliest", "latest", "none"),
        ),
        _key("isolation.level", ConfigType.STRING, "read_uncommitted", "Which records of transactions are read.",
             OneOf("read_committed", "read_uncommitted")),
        _key("fetch.min.bytes", ConfigType.INT, 1, "Bytes that a broker waits for before it answers.", at_least(0)),
        _key("fetch.max.bytes", ConfigType.INT, 52_428_800, "The most bytes of records in a response.", at_least(0)),
        _key("fetch.max.wait.ms", ConfigType.INT, 500, "How long a broker waits for fetch.min.bytes.", at_least(0)),
        _key("max.partition.fetch.bytes", ConfigType.INT, 1_048_576, "The most bytes of one partition.", at_least(0)),
        _key("client.rack", ConfigType.STRING, "", "The client's rack."),
        _key("allow.auto.create.topics", ConfigType.BOOLEAN, True, "Whether reading creates a topic."),
        _key("receive.buffer.bytes", ConfigType.INT, 65_536, "The socket's buffer; -1: the system's.", Between(-1)),
    ]
)  # fmt: skip


class ClientConfig:
    """Parsed client properties. `texts` holds the given ones as text, `values` all declared keys with defaults."""

    __slots__ = ("texts", "values")

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Parse the declared keys. ConfigError names the first invalid one."""
        self.texts = dict(texts)
        self.values: Mapping[str, Any] = KEYS.parse_all(self.texts)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def seconds(self, name: str) -> float:
        """Return the value of a key in milliseconds as seconds."""
        return float(self.values[name]) / 1000

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.values["security.protocol"] in (SSL, SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """Whether the client authenticates itself by SASL."""
        return self.values["security.protocol"] in (SASL_PLAINTEXT, SASL_SSL)


def read_properties(path: Path) -> dict[str, str]:
    """Return the keys of a properties file, with `${env:NAME}` and `${file:PATH[:KEY]}` resolved."""
    try:
        return {key: resolve_references(key, value) for key, value in raw_properties(path).items()}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error


def raw_properties(path: Path) -> dict[str, str]:
    """Return the keys of a properties file, references unresolved. OSError if the file cannot be read."""
    import javaproperties

    try:
        return javaproperties.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def resolve_references(key: str, value: str) -> str:
    """Replace `${env:NAME}` by the variable, `${file:PATH}` by the file's text, `${file:PATH:KEY}` by its property."""

    def replaced(found: re.Match[str]) -> str:
        provider = _PROVIDERS.get(found["provider"])
        if provider is None:
            raise ConfigError(f"{key}: there is no config provider {found['provider']!r}: use env or file")
        try:
            return provider(found["path"], found["key"])
        except (OSError, KeyError) as error:
            raise ConfigError(f"{key}: {found[0]} cannot be read: {error}") from error

    return _REFERENCE.sub(replaced, value)


def _environment(name: str, key: str | None) -> str:
    import os

    return os.environ[key or name]


def _file(path: str, key: str | None) -> str:
    if key is None:
        return Path(path).read_text("utf-8").strip()
    return raw_properties(Path(path))[key]


_PROVIDERS: Final[Mapping[str, Callable[[str, str | None], str]]] = {"env": _environment, "file": _file}
