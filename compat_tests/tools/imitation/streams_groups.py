"""kafka-streams-groups: on Kafka, and on Ottla, which lacks streams groups."""

import re

import confluent_kafka

from compat_tests.groups import newer_members
from compat_tests.support.brokers import ApacheKafka, Broker, Ottla
from compat_tests.support.clients import create_topic
from compat_tests.support.tools import Printed, Runs
from compat_tests.tools import tool_scenarios

BROKERS = (Ottla.name, ApacheKafka.name)
RELEASES = ("4.3",)
QUICK = ApacheKafka.name
SETTINGS = {ApacheKafka.name: newer_members.SETTINGS}
FILES = {"plan.csv": '"filled",0,2\n"filled",1,0\n'}
EXECUTE = "streams-groups --reset-offsets --group left --execute"
LEFT = ("left", "doomed", "doomed-too")
COMMANDS = {
    "streams-groups: groups are described": """
        streams-groups --describe --group stable
        streams-groups --describe --group stable --offsets --verbose
        streams-groups --describe --group stable --members
        streams-groups --describe --group stable --members --verbose
        streams-groups --describe --group stable --state
        streams-groups --describe --group stable --state --verbose
        streams-groups --describe --group left
        streams-groups --describe --group left --members
        streams-groups --describe --group left --state
        streams-groups --describe --group gone
        streams-groups --describe --group left --group gone --state
    """,
    "streams-groups: groups are listed": """
        streams-groups --list
        streams-groups --list --state
        streams-groups --list --state stable
        streams-groups --list --state Empty,NotReady
        streams-groups --list --state bogus
    """,
    "streams-groups: offsets are reset": f"""
        {EXECUTE} --to-latest --all-input-topics --delete-internal-topic no
        {EXECUTE} --to-latest --input-topic filled --delete-all-internal-topics
        streams-groups --reset-offsets --group left --input-topic filled --to-earliest --dry-run
        streams-groups --reset-offsets --group left --input-topic filled --to-earliest --execute
        streams-groups --reset-offsets --group left --input-topic filled:0 --to-latest --execute
        streams-groups --reset-offsets --group left --all-input-topics --to-offset 2 --execute
        streams-groups --reset-offsets --group left --all-input-topics --to-offset 99 --dry-run
        streams-groups --reset-offsets --group left --all-input-topics --shift-by -1 --execute
        streams-groups --reset-offsets --group left --all-input-topics --to-current --dry-run
        streams-groups --reset-offsets --group left --all-input-topics --to-datetime 2023-11-14T22:13:22.000 --dry-run
        streams-groups --reset-offsets --group left --all-input-topics --by-duration P1D --dry-run
        streams-groups --reset-offsets --group left --all-input-topics --to-current --dry-run --export
        streams-groups --reset-offsets --group left --from-file plan.csv --execute
        streams-groups --reset-offsets --group left --input-topic overridden --to-latest --execute
        streams-groups --reset-offsets --group left --input-topic gone --to-latest --execute
        streams-groups --reset-offsets --group left --input-topic filled:9 --to-latest --execute
        streams-groups --reset-offsets --group left --input-topic filled:x --to-latest --execute
        streams-groups --reset-offsets --group left --input-topic filled --to-datetime noon --execute
        streams-groups --reset-offsets --group stable --input-topic filled --to-latest --execute
        streams-groups --reset-offsets --group gone --input-topic filled --to-latest --execute
    """,
    "streams-groups: offsets and groups are deleted": """
        streams-groups --delete-offsets --group doomed --input-topic filled:0
        streams-groups --delete-offsets --group doomed --input-topic filled --input-topic gone
        streams-groups --delete-offsets --group doomed --all-input-topics
        streams-groups --delete-offsets --group gone --input-topic filled
        streams-groups --delete-offsets --group stable --input-topic filled
        streams-groups --delete --group doomed
        streams-groups --delete --group doomed-too --group stable --group gone --delete-all-internal-topics
        streams-groups --delete --group gone
        streams-groups --list
    """,
    "streams-groups: wrong usage is refused": """
        streams-groups
        streams-groups --help
        streams-groups --version
        streams-groups --frob
        streams-groups --group
        streams-groups --list --describe --group a
        streams-groups --members --list
        streams-groups --describe
        streams-groups --describe --group a --members --state
        streams-groups --describe --group a --state x
        streams-groups --describe --group a --all-groups
        streams-groups --list --group a
        streams-groups --delete
        streams-groups --delete --group a --input-topic b
        streams-groups --delete-offsets --group a
        streams-groups --delete-offsets --group a --group b --input-topic c
        streams-groups --reset-offsets --group a --dry-run --execute
        streams-groups --reset-offsets --group a
        streams-groups --reset-offsets --execute
        streams-groups --reset-offsets --group left --execute
        streams-groups --reset-offsets --group left --input-topic filled --execute
        streams-groups --reset-offsets --group a --input-topic b --execute --to-latest --to-earliest
        streams-groups --list --execute
        streams-groups --list --delete-all-internal-topics
        streams-groups --reset-offsets --group a --dry-run --delete-all-internal-topics
        streams-groups --reset-offsets --group a --dry-run --delete-internal-topic b
        streams-groups --command-config none.properties --list
    """,
}
_SETS = re.compile(r"(?<=Valid states are: ).*|(?<=scenarios: \[).*(?=\])")


def prepare(tools: Runs, broker: Broker) -> None:
    """Create topics, and if the broker supports them streams groups: one with a member, and some without."""
    tool_scenarios.prepare(tools, broker)
    create_topic(broker.bootstrap, "input", 2, {})
    if not isinstance(broker, ApacheKafka):
        return
    newer_members.join_streams_group(broker.bootstrap, "stable", "member-1", "input", [0, 1])
    for group in LEFT:
        newer_members.join_streams_group(broker.bootstrap, group, "member-1", "filled", [0, 1, 2])
        newer_members.leave_streams_group(broker.bootstrap, group, "member-1")
        consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
        offsets = [confluent_kafka.TopicPartition("filled", number, 1 - number % 2) for number in range(3)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()


def normalized(command: str, printed: Printed) -> Printed:
    """Sort sets."""
    texts = (_SETS.sub(lambda found: ", ".join(sorted(found.group().split(", "))), text) for text in printed[1:])
    return Printed(printed.code, *texts)
