"""kafka-cluster."""

import re

from compat_tests.support.tools import Printed

FILES = {"empty.properties": ""}
COMMANDS = {
    "cluster: its id is printed": """
        cluster cluster-id --bootstrap-server BOOTSTRAP
        cluster cluster-id -b BOOTSTRAP
        cluster cluster-id --bootstrap-server=BOOTSTRAP
        cluster cluster-id --bootstrap-s BOOTSTRAP
        cluster cluster -b BOOTSTRAP
        cluster cluster-id -bBOOTSTRAP -c empty.properties
        cluster cluster-id -b BOOTSTRAP --config empty.properties
        cluster cluster-id -b BOOTSTRAP --config empty.properties --command-config empty.properties
        cluster cluster-id -b BOOTSTRAP --config missing.properties
        cluster cluster-id -b BOOTSTRAP -c hasty.properties
    """,
    "cluster: endpoints are listed": """
        cluster list-endpoints --bootstrap-server BOOTSTRAP
        cluster list-endpoints --bootstrap-server BOOTSTRAP --include-fenced-brokers
        cluster list-endpoints --bootstrap-controller BOOTSTRAP --include-fenced-brokers
    """,
    "cluster: a broker is unregistered": """
        cluster unregister --bootstrap-server BOOTSTRAP --id 7
        cluster unregister -b BOOTSTRAP -i -1
    """,
    "cluster: wrong usage is refused": """
        cluster --help
        cluster -h
        cluster unregister --help
        cluster --version
        cluster --bootstrap-server BOOTSTRAP
        cluster cluster-id --frob BOOTSTRAP
        cluster cluster-id --bootstrap-server BOOTSTRAP extra words
        cluster cluster-id --bootstrap-server
        cluster cluster-id --bootstrap BOOTSTRAP
        cluster cluster-id --bootstrap-server BOOTSTRAP --bootstrap-controller BOOTSTRAP
        cluster frob --bootstrap-server BOOTSTRAP
        cluster clusterid --bootstrap-server BOOTSTRAP
        cluster unregister --bootstrap-server BOOTSTRAP
        cluster unregister --bootstrap-server BOOTSTRAP --id x
        cluster unregister --bootstrap-server BOOTSTRAP --id 99999999999
        cluster unregister --bootstrap-server BOOTSTRAP --id=1=2
        cluster unregister --bootstrap-server BOOTSTRAP -xi 1
        cluster unregister --bootstrap-server BOOTSTRAP -- --id 1
        cluster unregister --bootstrapserver BOOTSTRAP --id 1
        cluster "" --bootstrap-server BOOTSTRAP
        cluster list-endpoints --bootstrap-server BOOTSTRAP --include-fenced-brokers=yes
    """,
}


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out ids and ports, which differ between clusters."""
    stdout = re.sub(r"Cluster ID: \S{22}$", "Cluster ID: ID", printed.stdout, flags=re.MULTILINE)
    stdout = re.sub(r"127\.0\.0\.1 \d{4,5} +", "127.0.0.1 PORT ", stdout)
    # The rule for log lines of Kafka's client also removes the error after them.
    stderr = "" if "BrokerIdNotRegistered" in printed.stderr else printed.stderr
    return Printed(printed.code, stdout, stderr)
