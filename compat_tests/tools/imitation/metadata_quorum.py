"""kafka-metadata-quorum."""

import re

from compat_tests.support.tools import Printed

QUICK = "Kafka"
_CONTROLLER = """
node.id=7
process.roles=controller
controller.listener.names=CONTROLLER
listeners=CONTROLLER://localhost:9093,OTHER://:9094
log.dirs=logs,more
"""
FILES = {
    "controller.properties": _CONTROLLER,
    "nodeless.properties": "process.roles=controller\n",
    "negative.properties": "node.id=-1\n",
    "broker.properties": "node.id=1\nprocess.roles=broker\n",
    "homeless.properties": "node.id=1\nprocess.roles=controller\n",
}
COMMANDS = {
    "metadata-quorum: the quorum is described": """
        metadata-quorum --bootstrap-server BOOTSTRAP describe --status
        metadata-quorum --bootstrap-server BOOTSTRAP describe --replication
        metadata-quorum --bootstrap-server BOOTSTRAP describe --replication --human-readable
        metadata-quorum --bootstrap-server BOOTSTRAP describe --status --human-readable
        metadata-quorum --bootstrap-server BOOTSTRAP describe --status --replication
        metadata-quorum --bootstrap-server BOOTSTRAP describe
        metadata-quorum --bootstrap-server BOOTSTRAP --command-config hasty.properties describe --status
    """,
    "metadata-quorum: controllers are added and removed": """
        metadata-quorum --bootstrap-server BOOTSTRAP add-controller
        metadata-quorum --bootstrap-server BOOTSTRAP --command-config nodeless.properties add-controller
        metadata-quorum --bootstrap-server BOOTSTRAP --command-config negative.properties add-controller
        metadata-quorum --bootstrap-server BOOTSTRAP --command-config broker.properties add-controller --dry-run
        metadata-quorum --bootstrap-server BOOTSTRAP --command-config homeless.properties add-controller --dry-run
        metadata-quorum --bootstrap-server BOOTSTRAP --command-config controller.properties add-controller --dry-run
        metadata-quorum --bootstrap-server BOOTSTRAP remove-controller -i 7 -d AAAAAAAAAAAAAAAAAAAAAg --dry-run
        metadata-quorum --bootstrap-server BOOTSTRAP remove-controller -i 7 -d AAAAAAAAAAAAAAAAAAAAAg
        metadata-quorum --bootstrap-server BOOTSTRAP remove-controller -i -7 -d AAAAAAAAAAAAAAAAAAAAAg
        metadata-quorum --bootstrap-server BOOTSTRAP remove-controller -i 7 -d short
        metadata-quorum --bootstrap-server BOOTSTRAP remove-controller -i 7
        metadata-quorum --bootstrap-server BOOTSTRAP remove-controller -d AAAAAAAAAAAAAAAAAAAAAg
    """,
    "metadata-quorum: wrong usage is refused": """
        metadata-quorum --help
        metadata-quorum describe --help
        metadata-quorum --bootstrap-server BOOTSTRAP
        metadata-quorum --bootstrap-server BOOTSTRAP frob
        metadata-quorum --bootstrap-server BOOTSTRAP --bootstrap-controller BOOTSTRAP describe --status
        metadata-quorum --bootstrap-server BOOTSTRAP --command-config missing.properties describe --status
        metadata-quorum --bootstrap-server BOOTSTRAP describe --stat --frob
    """,
}


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out ids, ports, offsets and times, which differ between clusters."""
    stdout = re.sub(r"(?:ms ago|\d{13})", "TIME", printed.stdout)
    stdout = re.sub(r"ClusterId: +\S{22}$|\"[\w-]{22}\"|\b[\w-]{22}\t", "ID", stdout, flags=re.MULTILINE)
    stdout = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", stdout)
    stdout = re.sub(r"\d+ +TIME *", "TIME", stdout)
    stdout = re.sub(r"(HighWatermark:|ID) *\d+ *", r"\1 N", stdout)
    stdout = re.sub(r"(LogEndOffset|LastFetchTimestamp|LastCaughtUpTimestamp|DirectoryId) +\t", r"\1\t", stdout)
    return printed._replace(stdout=stdout)
