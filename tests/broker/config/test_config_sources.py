"""Where the broker's configuration comes from: a file, the environment, the command line."""

from pathlib import Path

import pytest

from ottla.broker.config.broker_config import BrokerConfig, from_environment
from ottla.broker.config.listeners import Address, Listener
from ottla.wire.config_def import ConfigError


def test_overrides_count_before_the_environment_and_this_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\n# a comment\nbroker.id: 2\nbroker.rack = r\\\n  1\n")
    environ = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_BROKER_ID": "3"}
    config, warnings = BrokerConfig.load(file, {"num.partitions": "4"}, environ)
    assert (config.num_partitions, config.broker_id, config.broker_rack, warnings) == (4, 3, "r1", [])


def test_a_file_with_a_broken_escape_is_refused_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.rack=\\u12\n")
    with pytest.raises(ConfigError, match=r"server\.properties: "):
        BrokerConfig.load(file, {}, {})


def test_environment_names_are_mapped_as_by_kafkas_image() -> None:
    environ = {
        "KAFKA_LOG_DIRS": "/d",
        "KAFKA_LISTENER_NAME_IN___TERNAL_X__Y": "v",
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "INFO",
        "MY_KAFKA_X": "1",
        "PATH": "p",
    }
    assert from_environment(environ) == {"log.dirs": "/d", "listener.name.in-ternal.x_y": "v"}


def test_defaults_count_last_and_an_address_first(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\nlisteners=NAME://h:1\nlistener.security.protocol.map=NAME:PLAINTEXT\n")
    overrides = {"inter.broker.listener.name": "NAME"}
    defaults = {"num.partitions": "2", "log.dir": "/there"}
    for address, expected in {
        Address(): ("h", 1),
        Address(port=0): ("h", 0),
        Address(host="::1"): ("::1", 1),
        Address("", 2): ("", 2),
    }.items():
        config, warnings = BrokerConfig.load(file, overrides, {}, defaults=defaults, address=address)
        assert config.listeners == (Listener("NAME", *expected),)
        assert (config.num_partitions, config.log_dirs, warnings) == (3, (Path("/there"),), [])
    config, _ = BrokerConfig.load(file, overrides, {"KAFKA_LOG_DIRS": "/elsewhere"}, defaults=defaults)
    assert config.log_dirs == (Path("/elsewhere"),)
    assert BrokerConfig.load(None, {}, {}, address=Address(port=5))[0].listeners == (Listener("PLAINTEXT", "", 5),)


def test_an_address_is_refused_for_several_listeners() -> None:
    several = {"listeners": "PLAINTEXT://:1,OTHER://:2"}
    with pytest.raises(ConfigError, match=r"does not fit listeners=PLAINTEXT://:1,OTHER://:2: set listeners itself$"):
        BrokerConfig.load(None, several, {}, address=Address(port=3))
