"""The columns of the page: the clients, their versions, and the commands of their drivers."""

import importlib.metadata
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from compat_tests.compatibility import toolchains
from compat_tests.compatibility.drivers import Program
from compat_tests.compatibility.processes import GROUP, RELEASES
from compat_tests.support.jars import JACKSON
from compat_tests.support.java import program_command

# The version in Debian.
KCAT_VERSION = "1.7.1"
HERE = Path(__file__).parent
TREE = HERE.parent.parent


class Client(NamedTuple):
    """A column."""

    name: str
    version: str
    start: Callable[[], Program]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def _python(distribution: str, module: str) -> Client:
    return _program(distribution, importlib.metadata.version(distribution), module)


def _program(name: str, version: str, module: str) -> Client:
    command = [sys.executable, "-P", "-m", f"compat_tests.compatibility.programs.{module}"]
    # The tree is not installed.
    return Client(name, version, lambda: Program(command, TREE, {"PYTHONPATH": str(TREE)}))


def _java(version: str) -> Client:
    coordinates = (f"{GROUP}:kafka-clients:{version}", JACKSON)
    source = HERE / "programs" / "KafkaClients.java"
    return Client("kafka-clients", version, lambda: Program(program_command(source, *coordinates), TREE))


def _go(name: str, program: str) -> Client:
    return Client(name, toolchains.go_version(program), lambda: Program(toolchains.go_program(program), TREE))


def _kafkajs() -> Program:
    command, environment = toolchains.node_program()
    return Program(command, TREE, environment)


def all_clients() -> list[Client]:
    """Return all columns."""
    return [
        _python("kafka-python", "kafka_python"),
        _python("confluent-kafka", "confluent"),
        _python("aiokafka", "aio"),
        *map(_java, toolchains.JAVA_VERSIONS),
        Client("KafkaJS", toolchains.node_version(), _kafkajs),
        _go("franz-go", "franz"),
        _go("sarama", "sarama"),
        _go("kafka-go", "kafkago"),
        _program("kcat", KCAT_VERSION, "kcat"),
        _python("pyspark", "spark")._replace(name="Spark"),
    ]


def releases() -> list[Client]:
    """Return the releases of Apache Kafka whose other programs are tried, without a driver."""
    return [Client("Apache Kafka", version, _no_driver) for version in RELEASES]


def _no_driver() -> Program:
    raise NotImplementedError
