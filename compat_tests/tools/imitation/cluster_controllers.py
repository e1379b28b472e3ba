"""kafka-cluster, kafka-features and kafka-metadata-quorum with the controllers of a KRaft cluster."""

from compat_tests.support.brokers import ApacheKafka
from compat_tests.support.tools import Printed
from compat_tests.tools.imitation import cluster, config_controllers, features, metadata_quorum

BROKERS = (ApacheKafka.name,)
COMMANDS = {
    "cluster: controllers are asked": """
        cluster cluster-id --bootstrap-controller BOOTSTRAP
        cluster list-endpoints -C BOOTSTRAP
        cluster unregister -C BOOTSTRAP --id 7
        features --bootstrap-controller BOOTSTRAP describe
        features --bootstrap-controller BOOTSTRAP describe --node-id 1
        features --bootstrap-controller BOOTSTRAP upgrade --feature group.version=1
        features --bootstrap-controller BOOTSTRAP upgrade --feature group.version=9
        metadata-quorum --bootstrap-controller BOOTSTRAP describe --status
        metadata-quorum --bootstrap-controller BOOTSTRAP describe --replication
        metadata-quorum --bootstrap-controller BOOTSTRAP remove-controller -i 7 -d AAAAAAAAAAAAAAAAAAAAAg
    """,
}
prepare = config_controllers.prepare


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out what differs between clusters."""
    area = {"cluster": cluster.normalized, "features": features.normalized}
    return area.get(command.split()[0], metadata_quorum.normalized)(command, printed)
