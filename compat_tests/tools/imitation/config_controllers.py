"""kafka-configs with the controllers of a KRaft cluster."""

import re

from compat_tests.support.brokers import ApacheKafka, Broker
from compat_tests.support.tools import Runs

BROKERS = (ApacheKafka.name,)
COMMANDS = {
    "configs: controllers are asked": """
        configs --bootstrap-controller BOOTSTRAP --describe --entity-type brokers
        configs --bootstrap-controller BOOTSTRAP --describe --broker 1
        configs --bootstrap-controller BOOTSTRAP --alter --broker 1 --add-config log.cleaner.threads=2
        configs --bootstrap-controller BOOTSTRAP --alter --broker-defaults --add-config log.cleaner.threads=1
        configs --bootstrap-controller BOOTSTRAP --describe --broker-defaults
        configs --bootstrap-controller BOOTSTRAP --alter --topic gone --add-config retention.ms=5
        configs --bootstrap-controller BOOTSTRAP --alter --group g --add-config consumer.session.timeout.ms=46000
        configs --bootstrap-controller BOOTSTRAP --describe --broker 7
    """,
    "configs: what controllers are not asked is refused": """
        configs --bootstrap-controller BOOTSTRAP --describe --topic gone
        configs --bootstrap-controller BOOTSTRAP --describe --entity-type topics
        configs --bootstrap-controller BOOTSTRAP --describe --entity-type client-metrics
        configs --bootstrap-controller BOOTSTRAP --describe --group g
        configs --bootstrap-controller BOOTSTRAP --describe --user a
        configs --bootstrap-controller BOOTSTRAP --alter --user a --add-config producer_byte_rate=5
        configs --bootstrap-controller BOOTSTRAP --alter --user a --add-config SCRAM-SHA-256=[password=x]
        configs --bootstrap-controller BOOTSTRAP --alter --ip 10.0.0.1 --add-config connection_creation_rate=5
    """,
}


def prepare(tools: Runs, broker: Broker) -> None:
    """Make commands use the controller as the server."""
    found = re.search(r"CONTROLLER://(.*)", (broker.data / "server.properties").read_text())
    assert found
    broker.names["BOOTSTRAP"] = found[1]
