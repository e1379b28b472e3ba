"""kafka-reassign-partitions with the controllers of a KRaft cluster."""

from compat_tests.support.brokers import ApacheKafka
from compat_tests.tools.imitation import config_controllers, reassign

BROKERS = (ApacheKafka.name,)
FILES = reassign.FILES
COMMANDS = {
    "reassign-partitions: controllers are asked": """
        reassign-partitions --bootstrap-controller BOOTSTRAP --list
        reassign-partitions --bootstrap-controller BOOTSTRAP --cancel --reassignment-json-file none.json
        reassign-partitions --bootstrap-controller BOOTSTRAP --cancel --reassignment-json-file nothing.json
        reassign-partitions --bootstrap-controller BOOTSTRAP --verify --reassignment-json-file gone.json
        reassign-partitions --bootstrap-controller BOOTSTRAP --bootstrap-server BOOTSTRAP --list
    """,
}
prepare = config_controllers.prepare
normalized = reassign.normalized
