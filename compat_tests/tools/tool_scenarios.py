"""Lists of commands of Kafka's admin tools, for one broker with some topics.

Each scenario changes topics of its own; `prepare` creates topics that all may describe. `test_tools` runs them with
Kafka's tools on Ottla and on Kafka, `test_shims` with Ottla's imitation of the tools and with Kafka's tools.
"""

from typing import Any

import kafka

from compat_tests.support.brokers import Broker
from compat_tests.support.clients import PATIENCE_S, create_topic
from compat_tests.support.tools import Runs

CLASSES = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}
# The files of commands.
FILES: dict[str, Any] = {
    "two.json": {"partitions": [{"topic": "deleted", "partition": 0, "offset": 2}], "version": 1},
    "all.json": {"partitions": [{"topic": "deleted", "partition": 0, "offset": -1}]},
    "beyond.json": {"partitions": [{"topic": "deleted", "partition": 0, "offset": 9}], "version": 1},
    "below.json": {"partitions": [{"topic": "deleted", "partition": 0, "offset": -2}], "version": 1},
    "missing.json": {"partitions": [{"topic": "gone", "partition": 0, "offset": 1}], "version": 1},
    "no-partition.json": {"partitions": [{"topic": "deleted", "partition": 7, "offset": 1}], "version": 1},
    "twice.json": {"partitions": [{"topic": "deleted", "partition": 0, "offset": 2}] * 2, "version": 1},
    "version.json": {"partitions": [{"topic": "deleted", "partition": 0, "offset": 2}], "version": 2},
    "compacted.json": {"partitions": [{"topic": "compacted", "partition": 0, "offset": 1}], "version": 1},
    "elected.json": {"partitions": [{"topic": "filled", "partition": index} for index in range(2)]},
    "elected-missing.json": {"partitions": [{"topic": "gone", "partition": 0}, {"topic": "filled", "partition": 0}]},
}
# A short timeout for requests that are retried until their timeout.
HASTY = "default.api.timeout.ms=1000\nrequest.timeout.ms=1000\n"

SCENARIOS = {
    "topics are created": """
        topics --create --topic plain
        topics --create --topic three --partitions 3 --replication-factor 1 --config retention.ms=7200000
        topics --create --topic assigned --replica-assignment 1,1
        topics --create --topic with.dot_and_underscore
        topics --describe --topic plain
        topics --describe --topic three
        topics --describe --topic assigned
    """,
    "topics are created unless they are there": """
        topics --create --topic twice
        topics --describe --topic twice
        topics --create --topic twice
        topics --create --topic twice --if-not-exists
        topics --create --topic twice --if-not-exists --partitions 5
        topics --create --topic col.lide
        topics --create --topic col_lide
    """,
    "topics that cannot be are refused": f"""
        topics --create --topic bad/name
        topics --create --topic ..
        topics --create --topic {"a" * 250}
        topics --create --topic refused --config bogus=1
        topics --create --topic refused --config retention.ms=x
        topics --create --topic refused --config retention.ms=-5
        topics --create --topic refused --config cleanup.policy=shred
        topics --create --topic refused --config min.insync.replicas=0
        topics --create --topic refused --replication-factor 2
        topics --create --topic refused --replication-factor 0
        topics --create --topic refused --partitions 0
        topics --create --topic refused --partitions -3
        topics --create --topic refused --replica-assignment 7
        topics --create --topic refused --replica-assignment 1:1
        topics --create --topic refused --replica-assignment 1,7
        topics --create --topic refused --replica-assignment 1:7
        topics --create --topic refused --replica-assignment -1
        topics --create --topic refused --partitions 2 --replica-assignment 1
        topics --create --topic __cluster_metadata
    """,
    "topics are listed": """
        topics --create --topic listed
        topics --list
        topics --list --exclude-internal
        topics --list --topic listed
        topics --list --topic li.*
        topics --list --topic gone
    """,
    "topics are described": """
        topics --describe --topic filled
        topics --describe --topic filled,overridden
        topics --describe
        topics --describe --topic gone
        topics --describe --topic gone --if-exists
        topics --describe --topics-with-overrides
        topics --describe --unavailable-partitions
        topics --describe --under-replicated-partitions
        topics --describe --under-min-isr-partitions
        topics --describe --at-min-isr-partitions
        topics --describe --topic-id AAAAAAAAAAAAAAAAAAAAAg
        topics --describe --topic-id nonsense
        topics --describe --topic filled --partition-size-limit-per-response 1
    """,
    "partitions are added": """
        topics --create --topic more
        topics --describe --topic more
        topics --alter --topic more --partitions 3
        topics --describe --topic more
        topics --alter --topic more --partitions 2
        topics --alter --topic more --partitions 3
        topics --alter --topic more --partitions 0
        topics --alter --topic gone --partitions 3
        topics --alter --topic gone --partitions 3 --if-exists
        topics --alter --topic more --partitions 5 --replica-assignment 1,1,1,1,1
        topics --describe --topic more
        topics --alter --topic more --partitions 6 --replica-assignment 1,1,1,1,1,7
        topics --alter --topic more --partitions 7 --replica-assignment 1,1,1,1,1,1
        topics --describe --topic more
    """,
    "topics are deleted": """
        topics --create --topic short-lived
        topics --describe --topic short-lived
        topics --delete --topic short-lived
        topics --describe --topic short-lived
        topics --delete --topic gone
        topics --delete --topic gone --if-exists
        topics --create --topic short-lived
    """,
    "topics have configs": """
        topics --create --topic configured --config segment.ms=9000000
        configs --describe --topic configured
        configs --alter --topic configured --add-config retention.ms=7200000,cleanup.policy=[compact,delete]
        configs --describe --topic configured
        configs --alter --topic configured --delete-config retention.ms
        configs --alter --topic configured --delete-config retention.ms
        configs --alter --topic configured --add-config cleanup.policy=[compact,shred]
        configs --alter --topic configured --add-config leader.replication.throttled.replicas=[0:1,1:1]
        configs --alter --topic configured --add-config follower.replication.throttled.replicas=*
        configs --alter --topic configured --delete-config bogus
        configs --describe --topic configured
        configs --describe --entity-type topics --entity-name configured
        configs --describe --topic configured --all
        configs --describe --topic gone
        configs --describe --topic bad/name
        configs --describe --entity-type topics
    """,
    "configs that a topic cannot have are refused": """
        topics --create --topic misconfigured
        configs --alter --topic misconfigured --add-config bogus.key=1
        configs --alter --topic misconfigured --add-config retention.ms=x
        configs --alter --topic misconfigured --add-config retention.ms=
        configs --alter --topic misconfigured --add-config retention.ms=-5
        configs --alter --topic misconfigured --add-config retention.bytes=99999999999999999999
        configs --alter --topic misconfigured --add-config cleanup.policy=shred
        configs --alter --topic misconfigured --add-config compression.type=rar
        configs --alter --topic misconfigured --add-config min.cleanable.dirty.ratio=2
        configs --alter --topic misconfigured --add-config preallocate=maybe
        configs --alter --topic misconfigured --add-config segment.bytes=1
        configs --alter --topic misconfigured --add-config min.insync.replicas=0
        configs --alter --topic misconfigured --add-config message.timestamp.type=Noon
        configs --alter --topic misconfigured --add-config local.retention.ms=99999999999
        configs --alter --topic misconfigured --add-config max.compaction.lag.ms=1,min.compaction.lag.ms=2
        configs --alter --topic misconfigured --add-config follower.replication.throttled.replicas=x
        configs --alter --topic gone --add-config retention.ms=1
        configs --alter --topic bad/name --add-config retention.ms=1
        configs --describe --topic misconfigured
    """,
    "a broker has configs": """
        configs --describe --broker 1
        configs --alter --broker 1 --add-config log.retention.ms=96400000
        configs --describe --broker 1
        configs --alter --broker-defaults --add-config log.retention.ms=86400000,background.threads=12
        configs --describe --broker-defaults
        configs --describe --broker 1
        configs --describe --entity-type brokers
        configs --describe --topic overridden --all
        configs --alter --broker 1 --delete-config log.retention.ms
        configs --alter --broker-defaults --delete-config log.retention.ms,background.threads
        configs --alter --broker-defaults --delete-config log.retention.ms
        configs --describe --broker 1
        configs --describe --broker-defaults
        configs --command-config hasty.properties --describe --broker 7
        configs --describe --broker x
    """,
    "configs that a broker cannot have are refused": """
        configs --alter --broker 1 --add-config log.retention.ms=x
        configs --alter --broker 1 --add-config log.roll.ms=0
        configs --alter --broker 1 --add-config num.io.threads=17
        configs --alter --broker 1 --add-config broker.rack=r
        configs --alter --broker 1 --add-config num.partitions=5
        configs --alter --broker 1 --add-config ssl.keystore.type=JKS
        configs --alter --broker 1 --add-config log.cleanup.policy=shred
        configs --alter --broker 1 --add-config max.connections=-1
        configs --alter --broker 1 --delete-config num.partitions
        configs --alter --broker 1 --delete-config bogus.key
        configs --alter --broker-defaults --add-config listener.name.a.b=5
        configs --alter --broker-defaults --add-config log.retention.ms=x
        configs --alter --broker-defaults --add-config num.partitions=5
        configs --alter --broker x --add-config log.retention.ms=1
        configs --describe --broker 1
        configs --describe --broker-defaults
    """,
    "a root logger has a level": """
        configs --alter --broker-logger 1 --add-config root=ERROR
        configs --alter --broker-logger 1 --add-config root=LOUD
        configs --alter --broker-logger 1 --delete-config root
        configs --alter --broker-logger 1 --add-config no.such.logger=INFO
        configs --alter --broker-logger 1 --delete-config no.such.logger
        configs --alter --broker-logger x --add-config root=INFO
        configs --command-config hasty.properties --describe --broker-logger 7
        configs --describe --broker-logger x
    """,
    "offsets are found": """
        get-offsets --topic filled
        get-offsets --topic filled --time -1
        get-offsets --topic filled --time -2
        get-offsets --topic filled --time -3
        get-offsets --topic filled --time -4
        get-offsets --topic filled --time -5
        get-offsets --topic filled --time -6
        get-offsets --topic filled --time latest
        get-offsets --topic filled --time earliest
        get-offsets --topic filled --time max-timestamp
        get-offsets --topic filled --time earliest-local
        get-offsets --topic filled --time latest-tiered
        get-offsets --topic filled --time earliest-pending-upload
        get-offsets --topic filled --time 1700000000000
        get-offsets --topic filled --time 1700000002000
        get-offsets --topic filled --time 1700000002001
        get-offsets --topic filled --time 1800000000000
        get-offsets --topic filled --time 0
        get-offsets --topic filled --time noon
    """,
    "offsets are found of what is named": """
        get-offsets --topic filled --partitions 0
        get-offsets --topic filled --partitions 0,1
        get-offsets --topic filled --partitions 7
        get-offsets --topic-partitions filled:1,overridden:0-2
        get-offsets --topic-partitions fil.*:0-2
        get-offsets --topic-partitions filled:7
        get-offsets --topic fil.*
        get-offsets --topic filled|overridden
        get-offsets --topic gone
        get-offsets --topic filled --partitions x
        get-offsets --topic filled --exclude-internal-topics
    """,
    "records are deleted": """
        delete-records --offset-json-file two.json
        delete-records --offset-json-file beyond.json
        delete-records --offset-json-file below.json
        delete-records --command-config hasty.properties --offset-json-file missing.json
        delete-records --command-config hasty.properties --offset-json-file no-partition.json
        delete-records --offset-json-file twice.json
        delete-records --offset-json-file version.json
        delete-records --offset-json-file compacted.json
        get-offsets --topic deleted --time -2
        delete-records --offset-json-file all.json
        delete-records --offset-json-file two.json
        get-offsets --topic deleted --time -2
        delete-records --offset-json-file no-such-file.json
    """,
    "log directories are described": """
        log-dirs --describe
        log-dirs --describe --topic-list filled
        log-dirs --describe --topic-list filled,gone
        log-dirs --describe --broker-list 1
        log-dirs --describe --broker-list 1,7
        log-dirs --describe --broker-list 7
        log-dirs --describe --broker-list x
    """,
    "leaders are elected": """
        leader-election --election-type preferred --all-topic-partitions
        leader-election --election-type unclean --all-topic-partitions
        leader-election --election-type preferred --topic filled --partition 1
        leader-election --election-type unclean --topic filled --partition 1
        leader-election --election-type preferred --topic filled --partition 7
        leader-election --election-type unclean --topic gone --partition 0
        leader-election --election-type preferred --path-to-json-file elected.json
        leader-election --election-type unclean --path-to-json-file elected-missing.json
        leader-election --election-type other --topic filled --partition 0
    """,
}


def of_tool(tool: str) -> dict[str, str]:
    """Return the scenarios that use only this tool."""
    return {
        name: commands
        for name, commands in SCENARIOS.items()
        if {line.split()[0] for line in commands.splitlines() if line.strip()} == {tool}
    }


def prepare(tools: Runs, broker: Broker) -> None:
    """Create the topics that the scenarios describe."""
    # A config that Kafka 4.1 and later set for each new cluster, for eligible leader replicas.
    settings = ("--alter", "--broker-defaults", "--add-config", "min.insync.replicas=1")
    assert tools.run(CLASSES["configs"], "--bootstrap-server", broker.bootstrap, *settings).code == 0
    create_topic(broker.bootstrap, "filled", 3, {"retention.ms": "-1"})
    create_topic(broker.bootstrap, "deleted", 1, {"retention.ms": "-1"})
    create_topic(broker.bootstrap, "overridden", 2, {"retention.ms": "86400000", "cleanup.policy": "compact,delete"})
    create_topic(broker.bootstrap, "compacted", 1, {"cleanup.policy": "compact"})
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
    for number in range(5):
        for topic in ("filled", "deleted", "compacted"):
            sent = producer.send(topic, b"v", b"k", partition=0, timestamp_ms=1_700_000_000_000 + number * 1000)
            sent.get(PATIENCE_S)
    producer.close(PATIENCE_S)
