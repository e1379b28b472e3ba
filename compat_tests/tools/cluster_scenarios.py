"""Lists of commands of Kafka's tools for clusters of three brokers, one of which may be stopped or paused.

Each scenario changes topics of its own. `test_cluster_tools` runs them with Kafka's tools on Ottla and on Kafka,
`test_cluster_shims` with Ottla's imitation of the tools and with Kafka's tools.
"""

import json
import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import kafka

from compat_tests.support.clusters import ClusterOf
from compat_tests.support.tools import Printed, Runs, normalized
from compat_tests.support.verifiable import Place, VerifiableConsumer

CLASSES = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "reassign": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "elect": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
}
SETTINGS = (
    # Longer than a broker's pause.
    "zookeeper.session.timeout.ms=30000",
    "replica.lag.time.max.ms=2000",
    "controlled.shutdown.retry.backoff.ms=300",
    "auto.leader.rebalance.enable=false",
    "offsets.topic.num.partitions=1",
    "offsets.topic.replication.factor=3",
    "group.initial.rebalance.delay.ms=0",
)


def moved(topic: str, *replicas: list[int]) -> dict[str, Any]:
    """Return a file for ReassignPartitionsCommand."""
    partitions = [{"topic": topic, "partition": index, "replicas": each} for index, each in enumerate(replicas)]
    return {"version": 1, "partitions": partitions}


FILES: dict[str, Any] = {
    "topics.json": {"version": 1, "topics": [{"topic": "generated"}]},
    "topics-gone.json": {"version": 1, "topics": [{"topic": "gone"}]},
    "there.json": moved("moved", [2, 3], [3, 1]),
    "back.json": moved("moved", [1, 2], [2, 3]),
    "more.json": moved("moved", [1, 2, 3], [2, 3, 1]),
    "fewer.json": moved("moved", [1], [2]),
    "gone.json": moved("gone", [1, 2]),
    "no-partition.json": moved("moved", [1, 2], [2, 3], [1, 2]),
    "unknown-broker.json": moved("moved", [1, 7]),
    "twice.json": moved("moved", [1, 1]),
    "none.json": moved("moved", []),
    "slow.json": moved("slow", [1, 3], [1, 2]),
    "elsewhere.json": moved("slow", [2, 3]),
    "elected.json": {"partitions": [{"topic": "elected", "partition": index} for index in range(2)]},
    "deleted.json": {"version": 1, "partitions": [{"topic": "deleted", "partition": 0, "offset": 2}]},
}
# Its records are from the year 2023.
CREATE_FILLED = "topics --create --topic filled --replica-assignment 1:2:3,2:3:1 --config retention.ms=-1"
# The time after which a client gives up a paused broker.
HASTY = "request.timeout.ms=2000\ndefault.api.timeout.ms=30000\n"

SCENARIOS = {
    "topics are created, changed and deleted": """
        topics --create --topic plain --partitions 3 --replication-factor 3
        topics --create --topic plain --partitions 3 --replication-factor 3
        topics --create --topic plain --if-not-exists
        topics --create --topic assigned --replica-assignment 1:2,2:3,3:1 --config min.insync.replicas=2
        topics --create --topic refused --replication-factor 4
        topics --create --topic refused --replica-assignment 1:2,2:3:1
        topics --create --topic refused --config bogus=1
        topics --describe --topic assigned
        topics --alter --topic assigned --partitions 5 --replica-assignment 1:2,2:3,3:1,1:3,2:1
        topics --describe --topic assigned
        topics --alter --topic assigned --partitions 4
        topics --alter --topic assigned --partitions 6 --replica-assignment 1:2,2:3,3:1,1:3,2:1,1
        topics --alter --topic assigned --partitions 6 --replica-assignment 1:2,2:3
        topics --alter --topic assigned --partitions 6 --replica-assignment 1:2,2:3,3:1,1:3,2:1,3:3
        topics --alter --topic assigned --partitions 6 --replica-assignment 1:2,2:3,3:1,1:3,2:1,3:7
        topics --alter --topic gone --partitions 3
        topics --create --topic a.b --replica-assignment 3:2
        topics --create --topic a_b --partitions 2 --replication-factor 2
        topics --describe --topic a.b --topic-id AAAAAAAAAAAAAAAAAAAAAA
        topics --describe --topics-with-overrides
        topics --delete --topic a.b
        topics --list
        topics --delete --topic plain
        topics --delete --topic assigned
        topics --describe --topic assigned
        topics --delete --topic gone
        topics --list --exclude-internal
    """,
    "a broker is away": """
        topics --create --topic watched --replica-assignment 1:2:3,2:3:1,3:1:2 --config min.insync.replicas=3
        topics --create --topic thin --replica-assignment 3 --config min.insync.replicas=1
        topics --create --topic elected --replica-assignment 3:1,3:2
        topics --create --topic __consumer_offsets --replica-assignment 3:2:1 --config cleanup.policy=compact
        groups --reset-offsets --group g --topic filled --to-offset 2 --execute
        groups --reset-offsets --group g --topic filled:0 --to-latest --execute
        groups --list
        groups --list --state
        groups --describe --group g
        groups --describe --group g --state
        member joins busy
        groups --describe --group busy
        groups --describe --group busy --members --verbose
        groups --describe --group busy --state
        topics --describe --topic watched
        topics --describe --under-replicated-partitions
        topics --describe --at-min-isr-partitions --topic watched
        broker stop 3
        topics --describe --topic watched
        topics --describe --topic thin
        topics --describe --topic elected
        topics --describe --under-replicated-partitions --topic watched
        topics --describe --under-min-isr-partitions --topic watched
        topics --describe --at-min-isr-partitions --topic watched
        topics --describe --unavailable-partitions
        topics --describe --under-replicated-partitions --topic thin
        topics --create --topic without --replication-factor 3
        topics --alter --topic thin --partitions 2 --replica-assignment 3,3
        log-dirs --describe --topic-list watched
        offsets --topic watched
        elect --election-type preferred --topic thin --partition 0
        elect --election-type unclean --topic thin --partition 0
        elect --election-type preferred --path-to-json-file elected.json
        elect --election-type unclean --path-to-json-file elected.json
        groups --describe --group g
        groups --describe --group g --state
        groups --describe --group g --members
        groups --describe --group busy
        groups --describe --group busy --members --verbose
        groups --describe --group busy --state
        groups --delete --group busy
        groups --reset-offsets --group busy --topic filled --to-earliest --execute
        groups --describe --group gone
        groups --reset-offsets --group g --topic filled:1 --to-earliest --execute
        configs --zookeeper --alter --entity-type brokers --entity-name 3 --add-config log.cleaner.threads=2,bogus=1
        configs --zookeeper --alter --entity-type brokers --entity-name 3 --add-config num.io.threads=7
        configs --zookeeper --alter --entity-type brokers --entity-name 3 --add-config broker.rack=r
        configs --zookeeper --describe --entity-type brokers --entity-name 3
        broker start 3
        topics --describe --under-replicated-partitions
        topics --describe --topic watched
        topics --describe --unavailable-partitions
        elect --election-type preferred --topic watched --partition 2
        topics --describe --topic watched
        elect --election-type preferred --path-to-json-file elected.json
        elect --election-type preferred --path-to-json-file elected.json
        elect --election-type unclean --topic elected --partition 0
        elect --election-type preferred --topic elected --partition 7
        elect --election-type preferred --topic gone --partition 0
        topics --describe --topic elected
        elect --election-type preferred --topic __consumer_offsets --partition 0
        groups --describe --group g
        groups --describe --group g --state
        groups --delete-offsets --group g --topic filled:1
        groups --describe --group g --offsets
        groups --describe --group busy
        groups --describe --group busy --state
        member leaves busy
        groups --describe --group busy
        groups --delete --group busy --group g
        groups --list
        configs --describe --entity-type brokers --entity-name 3
        configs --alter --entity-type brokers --entity-name 3 --delete-config num.io.threads,log.cleaner.threads,bogus
        configs --describe --entity-type brokers --entity-name 3
        topics --delete --topic watched
        topics --delete --topic thin
    """,
    "a leader outside the in-sync replicas is elected": """
        topics --create --topic unclean --replica-assignment 2:3
        broker stop 2
        broker stop 3
        broker start 2
        topics --describe --topic unclean
        elect --election-type preferred --topic unclean --partition 0
        elect --election-type unclean --topic unclean --partition 0
        topics --describe --topic unclean
        broker start 3
        topics --describe --under-replicated-partitions --topic unclean
        topics --describe --topic unclean
    """,
    "partitions are reassigned": """
        topics --create --topic moved --replica-assignment 1:2,2:3
        topics --create --topic generated --replica-assignment 1:2:3
        reassign --generate --topics-to-move-json-file topics.json --broker-list 1,2,3
        reassign --generate --topics-to-move-json-file topics.json --broker-list 1,2
        reassign --generate --topics-to-move-json-file topics.json --broker-list 1,2,3,7
        reassign --generate --topics-to-move-json-file topics-gone.json --broker-list 1,2,3
        reassign --list
        reassign --verify --reassignment-json-file there.json
        reassign --execute --reassignment-json-file there.json
        finish reassign --verify --reassignment-json-file there.json
        topics --describe --topic moved
        reassign --list
        reassign --execute --reassignment-json-file more.json
        finish reassign --verify --reassignment-json-file more.json --preserve-throttles
        topics --describe --topic moved
        reassign --execute --reassignment-json-file fewer.json
        finish reassign --verify --reassignment-json-file fewer.json
        topics --describe --topic moved
        reassign --cancel --reassignment-json-file fewer.json
        reassign --execute --reassignment-json-file back.json
        finish reassign --verify --reassignment-json-file back.json
        log-dirs --describe --topic-list moved
        reassign --execute --reassignment-json-file more.json --throttle 1000000
        finish reassign --verify --reassignment-json-file more.json
        configs --describe --entity-type brokers --entity-name 2
        configs --describe --entity-type topics --entity-name moved
        reassign --execute --reassignment-json-file gone.json
        reassign --execute --reassignment-json-file no-partition.json
        reassign --execute --reassignment-json-file unknown-broker.json
        reassign --execute --reassignment-json-file twice.json
        reassign --execute --reassignment-json-file none.json
        reassign --verify --reassignment-json-file gone.json
        reassign --cancel --reassignment-json-file gone.json
        topics --describe --topic moved
    """,
    "a reassignment that waits is listed and cancelled": """
        topics --create --topic slow --replica-assignment 1:2,2:1
        broker pause 3
        reassign --command-config hasty.properties --execute --reassignment-json-file slow.json
        reassign --command-config hasty.properties --list
        topics --command-config hasty.properties --describe --topic slow
        topics --command-config hasty.properties --describe --under-replicated-partitions --topic slow
        reassign --command-config hasty.properties --execute --reassignment-json-file elsewhere.json
        reassign --command-config hasty.properties --verify --reassignment-json-file slow.json
        topics --command-config hasty.properties --alter --topic slow --partitions 3 --replica-assignment 1:2,2:1,1:2
        reassign --command-config hasty.properties --cancel --preserve-throttles --reassignment-json-file slow.json
        reassign --command-config hasty.properties --list
        topics --command-config hasty.properties --describe --topic slow
        broker resume 3
        topics --describe --topic slow
        log-dirs --describe --topic-list slow
    """,
    "offsets and log directories are told": """
        topics --create --topic deleted --replica-assignment 1:2
        offsets --topic filled
        offsets --topic filled --time -2
        offsets --topic filled --time -3
        offsets --topic filled --partitions 7
        offsets --topic-partitions filled:1,deleted:0
        offsets --topic gone
        log-dirs --describe --topic-list filled
        log-dirs --describe --topic-list filled --broker-list 2
        log-dirs --describe --broker-list 7
        delete-records --offset-json-file deleted.json
        elect --election-type preferred --all-topic-partitions
        elect --election-type unclean --all-topic-partitions
        groups --describe --all-groups
        groups --delete --group gone
        groups --delete-offsets --group gone --topic filled
        groups --reset-offsets --group dry --topic filled --shift-by 2 --dry-run
        groups --reset-offsets --group dry --topic filled --to-datetime 2023-11-14T22:13:20.002 --dry-run
        groups --reset-offsets --group dry --topic filled --by-duration P1D --dry-run
        groups --reset-offsets --group dry --topic gone --to-latest --dry-run
    """,
    "configs come by way of ZooKeeper": """
        configs --zookeeper --describe --entity-type brokers --entity-name 2
        configs --zookeeper --alter --entity-type brokers --entity-name 2 --add-config log.cleaner.threads=2
        configs --zookeeper --alter --entity-type brokers --entity-default --add-config log.cleaner.threads=2
        configs --zookeeper --alter --entity-type topics --entity-name filled --add-config retention.ms=1
        configs --zookeeper --alter --entity-type users --entity-name u --add-config producer_byte_rate=1
        configs --zookeeper --alter --entity-type brokers --entity-name 9 --add-config background.threads=9
        configs --zookeeper --describe --entity-type brokers --entity-name 9
        configs --zookeeper --alter --entity-type users --entity-name u --add-config SCRAM-SHA-256=[password=p]
        configs --zookeeper --describe --entity-type users --entity-name u
        configs --zookeeper --describe --entity-type users
        configs --zookeeper --alter --entity-type users --entity-name u --delete-config SCRAM-SHA-256
        configs --zookeeper --describe --entity-type users --entity-name u
        configs --alter --entity-type brokers --entity-name 2 --add-config leader.replication.throttled.rate=1000
        configs --describe --entity-type brokers --entity-name 2
        configs --alter --entity-type brokers --entity-name 2 --delete-config leader.replication.throttled.rate
        configs --alter --entity-type brokers --entity-default --add-config log.retention.ms=86400000
        configs --describe --entity-type brokers --entity-default
        configs --alter --entity-type brokers --entity-default --delete-config log.retention.ms
        configs --alter --entity-type topics --entity-name filled --add-config min.insync.replicas=2
        configs --describe --entity-type topics --entity-name filled
        configs --alter --entity-type topics --entity-name filled --delete-config min.insync.replicas
    """,
}


def write_files(folder: Path) -> Path:
    """Write the files of commands; return the folder."""
    for name, content in FILES.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "hasty.properties").write_text(HASTY)
    return folder


def fill(runs: Runs, cluster: ClusterOf) -> None:
    """Create the topic that scenarios describe."""
    assert run(runs, cluster, CREATE_FILLED).code == 0
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    for number in range(5):
        for partition in range(2):
            sent = producer.send("filled", b"v", b"k", partition=partition, timestamp_ms=1_700_000_000_000 + number)
            sent.get(30)
    producer.close(30)


def run(runs: Runs, cluster: ClusterOf, command: str) -> Printed:
    """Run one command of a scenario."""
    tool, *arguments = shlex.split(command)
    if tool == "member":
        have_member(cluster, *arguments)
        return Printed(0, "", "")
    if tool == "broker":
        verb, broker_id = arguments
        cluster.do(verb, int(broker_id))
        return Printed(0, "", "")
    if "--zookeeper" in arguments:
        arguments.insert(arguments.index("--zookeeper") + 1, cluster.zookeeper)
    else:
        arguments = ["--bootstrap-server", cluster.bootstrap, *arguments]
    return plain(normalized(runs.run(CLASSES[tool], *arguments), cluster.names))


def have_member(cluster: ClusterOf, verb: str, group: str) -> None:
    """Make the only member of a group join and read, or leave."""
    if verb == "leaves":
        cluster.programs[group].stop()
        return
    member = VerifiableConsumer(cluster.data, cluster.bootstrap, "filled", group, 6_000)
    cluster.programs[group] = member
    member.wait_for([Place(0, 4), Place(1, 4)])


def plain(printed: Printed) -> Printed:
    """Leave out random parts of the output."""
    code, stdout, stderr = printed
    stdout = re.sub(r"(?<=consumer-)(\w+-\d+)-[0-9a-f-]{36}", r"\1-ID", stdout)
    # The order of a hash map.
    stdout = re.sub(r"(?<=for partitions )(.+)", lambda found: ", ".join(sorted(found[1].split(", "))), stdout)
    # Salts and keys.
    stdout = re.sub(r"(salt|stored_key|server_key)=[^,\n]*", r"\1=CHANCE", stdout)
    # Ottla, like Kafka without ZooKeeper, shows that no eligible leader left the in-sync replicas.
    stdout = stdout.replace("Elr: N/A", "Elr: ")
    # The tool itself proposes assignments.
    head, proposal, tail = stdout.partition("Proposed partition reassignment configuration\n")
    return Printed(code, head + proposal + re.sub(r"[123](?=[],])", "N", tail), stderr)


LOOKS = ("--describe", "--list", "--verify", "offsets --topic")
UNFINISHED = "still in progress"
PATIENCE_S = 120.0


def in_step(name: str, sides: Sequence[Callable[[str], Printed]]) -> Iterator[tuple[str, Printed, Printed]]:
    """Run each command of a scenario on both sides, with retries of reading ones until both agree; yield the output."""
    for line in filter(None, map(str.strip, SCENARIOS[name].splitlines())):
        # What is said to finish is asked again until it has.
        command = line.removeprefix("finish ")
        looks = any(word in command for word in LOOKS)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            one, other = (side(command) for side in sides)
            is_done = command == line or UNFINISHED not in one.stdout
            if (one == other and is_done) or not looks or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        yield command, one, other
