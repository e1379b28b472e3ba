"""The broker's configuration: where values come from, what is refused, and that the keys are Kafka's."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.config.broker_config import BROKER_CONFIG, BrokerConfig
from ottla.broker.config.connection_limits import UNLIMITED, ConnectionLimits, Limits
from ottla.broker.config.document import document
from ottla.broker.config.ignored_keys import REFUSED, is_refused, without_effect
from ottla.broker.config.listeners import Listener
from ottla.log.config import TOPIC_CONFIG
from ottla.wire.config_def import ConfigDef, ConfigError, ConfigKey, render

ROOT = Path(__file__).resolve().parents[3]
# name, type, default, allowed values and importance of every key, as Kafka's own documentation generator prints them.
FACTS = ROOT / "tests" / "data" / "kafka-configs.csv"
# Values that differ from Kafka's documentation, each for a reason.
DEVIATIONS = {
    ("inter.broker.protocol.version", "valid"): "brokers older than 2.8 are not supported",
    ("log.dir", "default"): "the documentation hides the directory that Kafka means",
    ("log.message.format.version", "valid"): "any text: the key is only tolerated",
    ("log.flush.interval.ms", "valid"): "Kafka checks its bounds in another place",
    ("message.downconversion.enable", "importance"): "all topic keys are of medium importance",
    ("message.format.version", "valid"): "any text: the key is only tolerated",
    ("follower.replication.throttled.replicas", "valid"): "checked by the code that uses it",
    ("leader.replication.throttled.replicas", "valid"): "checked by the code that uses it",
}

# Which keys may change while Kafka runs differs between versions; the facts are those of 4.3.1.
OTHER_UPDATE_MODES = {
    # Ottla's own: listeners are opened when it starts.
    "listeners": "read-only",
    "listener.security.protocol.map": "read-only",
    # As in 3.9.
    "advertised.listeners": "per-broker",
    "log.message.downconversion.enable": "cluster-wide",
    "log.message.timestamp.difference.max.ms": "cluster-wide",
}


def facts(kind: str) -> dict[str, dict[str, str]]:
    """Kafka's keys of one kind, those of 3.9.2 before those of the other version."""
    with FACTS.open(newline="") as file:
        rows = sorted((row for row in csv.DictReader(file) if row["kind"] == kind), key=lambda row: row["kafka"])
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        found.setdefault(row["name"], row)
    return found


# Kafka's internal keys, which the facts leave out.
INTERNAL = {
    "log.initial.task.delay.ms": {"type": "LONG", "default": "30000", "valid": "[0,...]", "importance": "LOW"},
}


def load(**overrides: str) -> tuple[BrokerConfig, list[str]]:
    named = {name.replace("_", "."): value for name, value in overrides.items()}
    return BrokerConfig.load(None, named, {})


def described(key: ConfigKey[Any], fact: dict[str, str]) -> dict[str, tuple[str, str]]:
    """The differences between a declared key and Kafka's."""
    pairs = {
        "type": (key.type.name, fact["type"]),
        "default": (render(key.default), fact["default"]),
        "valid": (key.validator.describe() if key.validator else "", fact["valid"]),
        "importance": (key.importance.name, fact["importance"]),
    }
    return {
        field: (ours, kafkas)
        for field, (ours, kafkas) in pairs.items()
        if ours != kafkas and (key.name, field) not in DEVIATIONS
    }


@pytest.mark.parametrize(("definition", "kind"), [(BROKER_CONFIG, "broker"), (TOPIC_CONFIG, "topic")])
def test_declared_keys_are_kafkas_in_type_default_bounds_and_importance(definition: ConfigDef, kind: str) -> None:
    kafkas = facts(kind) | INTERNAL
    assert {key.name: described(key, kafkas[key.name]) for key in definition.values()} == {
        name: {} for name in definition
    }


def test_the_same_keys_as_in_kafka_may_change_while_a_broker_runs() -> None:
    with FACTS.open(newline="") as file:
        modes = {row["name"]: row["update_mode"] for row in csv.DictReader(file) if row["kind"] == "broker"}
    kafkas = {name: modes.get(name) or "read-only" for name in BROKER_CONFIG}
    assert {key.name: key.dynamic for key in BROKER_CONFIG.values()} == kafkas | OTHER_UPDATE_MODES


def test_every_key_of_kafkas_topics_is_declared() -> None:
    assert set(facts("topic")) - set(TOPIC_CONFIG) == set()


def test_every_key_of_kafkas_broker_is_used_refused_or_known_to_do_nothing() -> None:
    kafkas = set(facts("broker")) | set(INTERNAL)
    declared, refused, unused = set(BROKER_CONFIG), {n for n in kafkas if is_refused(n)}, set(without_effect())
    assert declared | refused | unused == kafkas
    assert not declared & refused
    assert not declared & unused
    assert not refused & unused
    assert set(REFUSED) <= refused


def test_keys_are_attributes_by_their_name_with_underscores() -> None:
    own = {name: key for name, key in vars(BrokerConfig).items() if isinstance(key, ConfigKey)}
    assert own
    assert {name: key.name for name, key in own.items()} == {n: n.replace("_", ".") for n in own}


def test_every_key_that_the_broker_declares_is_read_somewhere() -> None:
    sources = [path.read_text() for path in (ROOT / "broker").rglob("*.py")]
    declaration = re.compile(r'ConfigKey(\[[^]]*\])?\(\s*"[^"]*"')
    code = "\n".join(declaration.sub("", source) for source in sources)
    own = {name: key.name for name, key in vars(BrokerConfig).items() if isinstance(key, ConfigKey)}
    unread = [key for name, key in own.items() if not re.search(rf'config\.{name}\b|"{re.escape(key)}"', code)]
    assert unread == []


def test_every_key_of_the_broker_has_a_document() -> None:
    assert [key.name for key in BROKER_CONFIG.values() if not key.doc.endswith(".")] == []


def test_an_unknown_key_is_warned_about_with_the_most_similar_key() -> None:
    _, warnings = load(num_partition="3", colour="red", KAFKA="x")
    assert warnings == [
        "unknown configuration num.partition is ignored; did you mean num.partitions?",
        "unknown configuration colour is ignored",
        "unknown configuration KAFKA is ignored",
    ]


def test_a_key_without_effect_is_listed_and_not_warned_about() -> None:
    config, warnings = load(num_network_threads="3", num_partitions="2")
    assert (config.without_effect, warnings) == (["num.network.threads"], [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("ssl.client.auth", "required"),
        ("listener.name.plaintext.sasl.enabled.mechanisms", "PLAIN"),
        ("process.roles", "broker"),
        ("controller.quorum.voters", "1@a:9093,2@b:9093"),
        ("create.topic.policy.class.name", "com.example.Policy"),
    ],
)
def test_a_key_that_would_be_unsafe_to_ignore_is_refused_in_one_line(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({name: value})
    assert str(caught.value).startswith(f"{name} cannot be honoured: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "org.apache.kafka.common.replica.RackAwareReplicaSelector"])
def test_kafkas_own_replica_selector_is_accepted(name: str) -> None:
    assert BrokerConfig({"replica.selector.class": name}).replica_selector_class == name


@pytest.mark.parametrize(
    "name", ["com.example.Selector", "ORG.APACHE.KAFKA.COMMON.REPLICA.RACKAWAREREPLICASELECTOR", "RackAware"]
)
def test_any_other_replica_selector_is_refused(name: str) -> None:
    expected = f"Invalid value {name} for configuration replica.selector.class: Ottla cannot run Java classes"
    with pytest.raises(ConfigError, match=expected):
        BrokerConfig({"replica.selector.class": name})


def test_the_configuration_of_a_combined_kraft_node_is_accepted() -> None:
    config, warnings = BrokerConfig.load(
        None,
        {},
        {
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_LISTENERS": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_AUTHORIZER_CLASS_NAME": "",
            "KAFKA_SSL_CLIENT_AUTH": "none",
        },
    )
    assert (config.broker_id, config.listeners, warnings) == (1, (Listener("PLAINTEXT", "localhost", 9092),), [])


def test_listeners_are_names_hosts_and_ports() -> None:
    config = BrokerConfig(
        {
            "listeners": "internal://[::1]:0, EXTERNAL://:9092",
            "advertised.listeners": "INTERNAL://me:1,EXTERNAL://example.com:19092",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:plaintext",
            "inter.broker.listener.name": "internal",
        }
    )
    assert config.listeners == (Listener("INTERNAL", "::1", 0), Listener("EXTERNAL", "", 9092))
    assert config.advertised_listeners == (Listener("INTERNAL", "me", 1), Listener("EXTERNAL", "example.com", 19092))
    assert config.inter_broker_listener_name == "INTERNAL"


def test_listeners_are_advertised_unless_advertised_listeners_is_set() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://localhost:9092"})
    assert config.advertised_listeners == config.listeners


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        ({"broker.id": "1", "node.id": "2"}, "You must set `node.id` to the same value as `broker.id`."),
        ({"broker.id": "1001"}, "not greater than reserved.broker.max.id"),
        ({"broker.id": "-2"}, "broker.id must be greater than or equal to -1"),
        ({"broker.id.generation.enable": "false"}, "broker.id must be greater than or equal to 0"),
        ({"log.dirs": " , "}, "At least one log directory must be defined"),
        (
            {"max.connections.per.ip": "0"},
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.ov",
        ),
        ({"max.connections.per.ip.overrides": "a"}, "Error parsing configuration property 'max.connections.per.ip."),
        ({"max.connections.per.ip.overrides": "a:b"}, "Invalid value b for configuration max.connections.per.ip.over"),
        ({"max.connections.per.ip.overrides": "a b:1"}, "max.connections.per.ip.overrides contains invalid addresses"),
        ({"queued.max.request.bytes": "9"}, "queued.max.request.bytes must be larger or equal to socket.request.max"),
        (
            {"listener.name.plaintext.max.connections": "-1"},
            "Invalid value -1 for configuration max.connections: Value must be at least 0",
        ),
        ({"log.roll.ms": "0"}, "requirement failed: log.roll.ms must be greater than or equal to 1"),
        ({"log.roll.jitter.ms": "-1"}, "requirement failed: log.roll.jitter.ms must be greater than or equal to 0"),
        ({"log.retention.minutes": "0"}, "requirement failed: log.retention.ms must be unlimited (-1)"),
        (
            {"offsets.topic.compression.codec": "5"},
            "Unknown compression type id: 5, in offsets.topic.compression.codec",
        ),
        (
            {"replica.fetch.wait.max.ms": "30001"},
            "requirement failed: replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms",
        ),
        (
            {"replica.lag.time.max.ms": "499"},
            "requirement failed: replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time",
        ),
        ({"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
    ],
)
def test_invalid_values_are_refused_in_one_line(texts: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(texts)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("listeners", "fault"),
    [
        ("A://127.0.0.1:9092,B://[::1]:9092", None),
        ("A://127.0.0.1:0,B://127.0.0.1:0", None),
        ("A://127.0.0.1:9092,B://127.0.0.2:9092", "If you have two listeners on the same port then one needs to be"),
        ("A://:9092,B://:9092", "Each listener must have a different port, listeners: A://:9092,B://:9092"),
        ("A://a:9092,B://b:9092", "Each listener must have a different port, listeners: A://a:9092,B://b:9092"),
        ("A://:9092,B://[::1]:9092", "Each listener must have a different port unless exactly one listener has an IPv"),
        ("A://127.0.0.1:9092,B://[::1]:9092,D://:9092", "If you have two listeners on the same port then one needs to"),
        ("A://127.0.0.1:9092,B://[::1]:9092,D://[::2]:9092", "Each listener must have a different port unless exactly"),
    ],
)
def test_a_port_serves_one_listener_or_one_of_each_address_family(listeners: str, fault: str | None) -> None:
    texts = {
        "listeners": listeners,
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,D:PLAINTEXT",
        "inter.broker.listener.name": "A",
    }
    if fault is None:
        assert len(BrokerConfig(texts).listeners) == 2
    else:
        with pytest.raises(ConfigError, match=f"^{re.escape(fault)}"):
            BrokerConfig(texts)


def test_listeners_may_be_advertised_at_one_port() -> None:
    config = BrokerConfig({**TWO, "advertised.listeners": "A://proxy:9,B://proxy:9"})
    assert [each.port for each in config.advertised_listeners] == [9, 9]


def test_a_listener_without_a_limit_of_its_own_has_the_brokers() -> None:
    config = BrokerConfig(
        {
            "listeners": "IN://:1,OUT://:2",
            "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
            "inter.broker.listener.name": "IN",
            "max.connections": "10",
            "listener.name.out.max.connections": "3",
            "listener.name.out.max.connection.creation.rate": "7",
            "max.connections.per.ip": "4",
            "max.connections.per.ip.overrides": "localhost:5, ::1:0,10.0.0.1 : 6",
        }
    )
    limits = config.connection_limits
    assert limits.broker == Limits(10, UNLIMITED)
    assert limits.of_listener == {"IN": Limits(10, UNLIMITED), "OUT": Limits(3, 7)}
    assert (limits.per_ip, limits.inter_broker_listener) == (4, "IN")
    assert limits.per_ip_overrides == {"localhost": 5, "::1": 0, "10.0.0.1": 6}


def test_connections_have_no_limits_by_default() -> None:
    assert BrokerConfig({}).connection_limits == ConnectionLimits(
        of_listener={"PLAINTEXT": Limits()}, inter_broker_listener="PLAINTEXT"
    )


MAP = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,C:SSL,PLAINTEXT:PLAINTEXT"}
TWO = {**MAP, "listeners": "A://a:1,B://b:2", "inter.broker.listener.name": "A"}
KRAFT = {"node.id": "1", "process.roles": "broker,controller", "controller.quorum.voters": "1@c:1"}


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        (
            {"listeners": "PLAINTEXT:9092"},
            "Error creating broker listeners from 'PLAINTEXT:9092': Unable to parse PLAINTEXT:9092 to a broker "
            "endpoint",
        ),
        (
            {"listeners": "PLAINTEXT://a:65536"},
            "Error creating broker listeners from 'PLAINTEXT://a:65536': port out of range:65536",
        ),
        (
            {"advertised.listeners": "PUBLIC://:9093"},
            "Error creating broker listeners from 'PUBLIC://:9093': No security protocol defined for listener PUBLIC",
        ),
        ({"listeners": ""}, "There must be at least one broker advertised listener."),
        ({"advertised.listeners": ""}, "There must be at least one broker advertised listener."),
        (
            {"listeners": "PLAINTEXT://a:1,plaintext://b:2"},
            "Each listener must have a different name, listeners: PLAINTEXT://a:1,plaintext://b:2",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"},
            "Each listener must have a different name, listeners: PLAINTEXT://a:1,PLAINTEXT://b:2",
        ),
        (
            {"listener.security.protocol.map": "X:Tls"},
            "Invalid security protocol `Tls` defined in listener.security.protocol.map",
        ),
        (
            {"listener.security.protocol.map": "X"},
            "Error parsing configuration property 'listener.security.protocol.map': X is not NAME:PROTOCOL",
        ),
        *(
            (given, "listeners: SSL asks for SSL; Ottla serves PLAINTEXT only, no TLS and no SASL")
            for given in ({"listeners": "SSL://:1"}, {"listeners": "PLAINTEXT://:1,SSL://:2"})
        ),
        ({"listeners": "SASL_PLAINTEXT://:1"}, "listeners: SASL_PLAINTEXT asks for SASL_PLAINTEXT; "),
        (
            {**TWO, "listeners": "A://a:1,C://c:2"},
            "listeners: C asks by listener.security.protocol.map for SSL; Ottla serves PLAINTEXT only",
        ),
        (
            {**TWO, "advertised.listeners": "A://a:1,PLAINTEXT://b:2"},
            "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "
            "Found A,PLAINTEXT. The valid options based on the current configuration are A,B",
        ),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners cannot use the nonroutable meta-address"),
        (
            {**TWO, "security.inter.broker.protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
        (
            {"inter.broker.listener.name": "other"},
            "Listener with name OTHER defined in inter.broker.listener.name not found in listener.security.protocol",
        ),
        (
            {**TWO, "advertised.listeners": "B://b:2"},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            "based on currently configured listeners are B",
        ),
        (
            {"security.inter.broker.protocol": "SSL"},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            "based on currently configured listeners are PLAINTEXT",
        ),
        (
            {"security.inter.broker.protocol": "TLS"},
            "Invalid value TLS for configuration security.inter.broker.protocol: String must be one of: PLAINTEXT, ",
        ),
        (
            {**TWO, "control.plane.listener.name": "other"},
            "Listener with OTHER defined in control.plane.listener.name not found in listener.security.protocol.map.",
        ),
        (
            {**TWO, "control.plane.listener.name": "B", "advertised.listeners": "A://a:1"},
            "control.plane.listener.name must be a listener name defined in advertised.listeners. The valid options "
            "based on currently configured listeners are A",
        ),
        (
            {**TWO, "control.plane.listener.name": "a"},
            "control.plane.listener.name, when defined, should have a different value from the inter broker listener "
            "name. Currently they both have the value A",
        ),
        (
            {**TWO, **KRAFT, "control.plane.listener.name": "B", "controller.listener.names": "B"},
            "control.plane.listener.name is not supported in KRaft mode.",
        ),
        (
            {**TWO, "controller.listener.names": "B"},
            "controller.listener.names must be empty when not running in KRaft mode: [B]",
        ),
        (
            {**TWO, **KRAFT},
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration",
        ),
        (
            {**TWO, **KRAFT, "controller.listener.names": "B,C"},
            "controller.listener.names must only contain values appearing in the 'listeners' configuration",
        ),
        (
            {**TWO, **KRAFT, "controller.listener.names": "A,B"},
            "There must be at least one broker advertised listener. Perhaps all listeners appear in controller.lis",
        ),
    ],
)
def test_invalid_listeners_are_refused_as_by_kafka(texts: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(texts)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_a_control_plane_listener_is_opened_like_any_other() -> None:
    config = BrokerConfig({**TWO, "control.plane.listener.name": "b"})
    assert config.listeners == (Listener("A", "a", 1), Listener("B", "b", 2))


def test_listeners_of_a_controller_use_plaintext_by_default() -> None:
    texts = {**KRAFT, "listeners": "PLAINTEXT://a:1,CONTROLLER://a:2", "controller.listener.names": "CONTROLLER"}
    assert BrokerConfig(texts).listeners == (Listener("PLAINTEXT", "a", 1),)


def test_brokers_use_the_listener_that_their_protocol_names() -> None:
    assert BrokerConfig({"security.inter.broker.protocol": "PLAINTEXT"}).inter_broker_listener_name == "PLAINTEXT"


def test_several_log_directories_are_read_from_either_key() -> None:
    assert BrokerConfig({"log.dir": "/a", "log.dirs": "/b, /c"}).log_dirs == (Path("/b"), Path("/c"))
    assert BrokerConfig({"log.dir": "/a"}).log_dirs == (Path("/a"),)


def test_the_documentation_of_the_keys_is_up_to_date() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text() == document(), "run `make docs`"
