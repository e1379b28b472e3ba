"""kafka-features."""

import re

from compat_tests.support.tools import Printed

QUICK = "Kafka"
COMMANDS = {
    "features: levels are described": """
        features --bootstrap-server BOOTSTRAP describe
        features --bootstrap-server BOOTSTRAP --command-config hasty.properties describe
        features --bootstrap-server BOOTSTRAP describe --node-id 1
        features --bootstrap-server BOOTSTRAP --command-config hasty.properties describe --node-id 7
        features --bootstrap-server BOOTSTRAP describe --node-id -1
        features --bootstrap-server BOOTSTRAP describe --node-id x
    """,
    "features: levels are changed": """
        features --bootstrap-server BOOTSTRAP upgrade --feature group.version=1 --dry-run
        features --bootstrap-server BOOTSTRAP upgrade --feature group.version=1
        features --bootstrap-server BOOTSTRAP upgrade --feature group.version=9
        features --bootstrap-server BOOTSTRAP upgrade --feature group.version=0
        features --bootstrap-server BOOTSTRAP upgrade --feature group.version=-1
        features --bootstrap-server BOOTSTRAP upgrade --feature group.version=x
        features --bootstrap-server BOOTSTRAP upgrade --feature group.version
        features --bootstrap-server BOOTSTRAP upgrade --feature bogus=1 --feature group.version=1
        features --bootstrap-server BOOTSTRAP upgrade --feature group.version=1 --feature group.version=1
        features --bootstrap-server BOOTSTRAP upgrade --feature =1
        features --bootstrap-server BOOTSTRAP upgrade
        features --bootstrap-server BOOTSTRAP upgrade --metadata 3.9-IV0
        features --bootstrap-server BOOTSTRAP upgrade --metadata 3.9 --dry-run
        features --bootstrap-server BOOTSTRAP upgrade --metadata bogus
        features --bootstrap-server BOOTSTRAP upgrade --metadata 0.10.0
        features --bootstrap-server BOOTSTRAP upgrade --release-version 4.3 --dry-run
        features --bootstrap-server BOOTSTRAP upgrade --release-version 4.3 --feature group.version=1
        features --bootstrap-server BOOTSTRAP upgrade --release-version bogus
        features --bootstrap-server BOOTSTRAP downgrade --feature share.version=0 --dry-run
        features --bootstrap-server BOOTSTRAP downgrade --feature streams.version=0
        features --bootstrap-server BOOTSTRAP downgrade --feature streams.version=0
        features --bootstrap-server BOOTSTRAP downgrade --feature transaction.version=1 --unsafe
        features --bootstrap-server BOOTSTRAP downgrade --release-version 4.0 --dry-run
        features --bootstrap-server BOOTSTRAP downgrade --metadata 4.0-IV3 --unsafe --dry-run
        features --bootstrap-server BOOTSTRAP disable --feature share.version --dry-run
        features --bootstrap-server BOOTSTRAP disable --feature share.version --feature bogus
        features --bootstrap-server BOOTSTRAP disable --feature share.version --feature share.version
        features --bootstrap-server BOOTSTRAP disable
        features --bootstrap-server BOOTSTRAP upgrade --feature streams.version=1
        features --bootstrap-server BOOTSTRAP upgrade --feature transaction.version=2
        features --bootstrap-server BOOTSTRAP describe
    """,
    "features: the tables of a release are printed": """
        features version-mapping --bootstrap-server BOOTSTRAP
        features --bootstrap-server BOOTSTRAP version-mapping
        features --bootstrap-server BOOTSTRAP version-mapping --release-version 3.9
        features --bootstrap-server BOOTSTRAP version-mapping --release-version 4.0-IV0
        features --bootstrap-server BOOTSTRAP version-mapping --release-version bogus
        features --bootstrap-server BOOTSTRAP feature-dependencies
        features --bootstrap-server BOOTSTRAP feature-dependencies --feature group.version=1 --feature bogus=1
        features --bootstrap-server BOOTSTRAP feature-dependencies --feature eligible.leader.replicas.version=1
        features --bootstrap-server BOOTSTRAP feature-dependencies --feature group.version=9
        features --bootstrap-server BOOTSTRAP feature-dependencies --feature metadata.version=20
        features --bootstrap-server BOOTSTRAP feature-dependencies --feature metadata.version=99
        features --bootstrap-server BOOTSTRAP feature-dependencies --feature bogus=1
        features --bootstrap-server BOOTSTRAP feature-dependencies --feature bogus
    """,
    "features: wrong usage is refused": """
        features --help
        features upgrade --help
        features --bootstrap-server BOOTSTRAP
        features --bootstrap-server BOOTSTRAP frob
        features --bootstrap-server BOOTSTRAP --bootstrap-controller BOOTSTRAP describe
        features --bootstrap-server BOOTSTRAP --frob describe
        features --bootstrap-server BOOTSTRAP describe extra
        features --bootstrap-server BOOTSTRAP --command-config missing.properties describe
        features --bootstrap-server BOOTSTRAP upgrade --dry-run=yes
        features --bootstrap-server BOOTSTRAP u --feature
    """,
}


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out the count of metadata changes."""
    return printed._replace(stdout=re.sub(r"Epoch: \d+", "Epoch: N", printed.stdout))
