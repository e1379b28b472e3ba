"""Kafka's tools by name: the Java class of each, and Ottla's imitation, run like by a script."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from compat_tests.support.tools import Printed

_TOOLS = "org.apache.kafka.tools."
CLASSES: Mapping[str, str] = {
    "acls": _TOOLS + "AclCommand",
    "broker-api-versions": _TOOLS + "BrokerApiVersionsCommand",
    "client-metrics": _TOOLS + "ClientMetricsCommand",
    "cluster": _TOOLS + "ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": _TOOLS + "consumer.ConsoleConsumer",
    "console-producer": _TOOLS + "ConsoleProducer",
    "consumer-groups": _TOOLS + "consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": _TOOLS + "ConsumerPerformance",
    "delegation-tokens": _TOOLS + "DelegationTokenCommand",
    "delete-records": _TOOLS + "DeleteRecordsCommand",
    "dump-log": _TOOLS + "DumpLogSegments",
    "e2e-latency": _TOOLS + "EndToEndLatency",
    "features": _TOOLS + "FeatureCommand",
    "get-offsets": _TOOLS + "GetOffsetShell",
    "groups": _TOOLS + "GroupsCommand",
    "leader-election": _TOOLS + "LeaderElectionCommand",
    "log-dirs": _TOOLS + "LogDirsCommand",
    "metadata-quorum": _TOOLS + "MetadataQuorumCommand",
    "producer-perf-test": _TOOLS + "ProducerPerformance",
    "reassign-partitions": _TOOLS + "reassign.ReassignPartitionsCommand",
    "replica-verification": _TOOLS + "ReplicaVerificationTool",
    "share-groups": _TOOLS + "consumer.group.ShareGroupCommand",
    "storage": "kafka.tools.StorageTool",
    "streams-groups": _TOOLS + "streams.StreamsGroupCommand",
    "topics": _TOOLS + "TopicCommand",
    "transactions": _TOOLS + "TransactionsCommand",
    "verifiable-consumer": _TOOLS + "VerifiableConsumer",
    "verifiable-producer": _TOOLS + "VerifiableProducer",
}
"""The classes of Kafka 4.3."""
OLDER_CLASSES: Mapping[str, str] = {
    **CLASSES,
    "acls": "kafka.admin.AclCommand",
    "dump-log": "kafka.tools.DumpLogSegments",
    "broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "console-producer": "kafka.tools.ConsoleProducer",
}
"""The classes of Kafka 3.9 that are others, written in Scala."""
_USAGE = re.compile(r"^(Option +Description|Option \(\* = required\)).*", re.MULTILINE | re.DOTALL)
# On stderr a line like it says what was wrong with a command, on stdout help follows.
_HELP = re.compile(r"^usage:.*", re.MULTILINE | re.DOTALL)
# Log lines are not the tool's output, because their form depends on the logging configuration.
_LOGGED = re.compile(
    r"^\[[^\]\n]+\] (?:ERROR|WARN) [\w.$]+ - .*\n(?:.+\n)*\n?|^(?:ERROR|WARN) (?:.*\n)*?.*\([\w.$]+\)\n", re.MULTILINE
)


class Shims:
    """The imitation of the tools of one release, in a folder."""

    def __init__(self, folder: Path, release: str = "4.3") -> None:
        self._folder = folder
        self._release = release
        classes = CLASSES if release == "4.3" else OLDER_CLASSES
        self._names = {java_class: name for name, java_class in classes.items()}

    def command(self, main_class: str, *arguments: str) -> list[str]:
        """Return the command line of the imitation of a tool."""
        tool = f"kafka-{self._names[main_class]}"
        return [sys.executable, "-P", "-m", "ottla.scripts.kafka", "--as", self._release, tool, *arguments]

    def run(self, main_class: str, *arguments: str) -> Printed:
        """Run one command to its end; its last two words may be `<` and a file, as in a shell."""
        source = Path(os.devnull)
        if arguments[-2:-1] == ("<",):
            source, arguments = self._folder / arguments[-1], arguments[:-2]
        with source.open("rb") as stdin:
            done = subprocess.run(
                self.command(main_class, *arguments),
                cwd=self._folder,
                capture_output=True,
                text=True,
                timeout=120,
                env={**os.environ, "COLUMNS": "80"},
                stdin=stdin,
            )
        return Printed(done.returncode, done.stdout, done.stderr)


def without_help(printed: Printed) -> Printed:
    """Leave out help texts, which are not imitated, and the log lines of Kafka's tools."""
    stdout = _HELP.sub("", _USAGE.sub("", printed.stdout))
    return Printed(printed.code, stdout, _USAGE.sub("", _LOGGED.sub("", printed.stderr)))
