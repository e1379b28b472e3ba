"""kafka-share-groups: on Kafka, and on Ottla, which lacks share groups."""

import re

from compat_tests.groups import newer_members
from compat_tests.support.brokers import ApacheKafka, Broker, Ottla
from compat_tests.support.tools import Printed, Runs
from compat_tests.tools import tool_scenarios

BROKERS = (Ottla.name, ApacheKafka.name)
RELEASES = ("4.3",)
QUICK = ApacheKafka.name
SETTINGS = {ApacheKafka.name: newer_members.SETTINGS}
COMMANDS = {
    "share-groups: offsets are reset": """
        share-groups --reset-offsets --group made --topic filled --to-earliest --dry-run
        share-groups --reset-offsets --group made --topic filled --to-earliest --execute
        share-groups --describe --group made
        share-groups --reset-offsets --group made --topic filled:1 --to-latest --execute
        share-groups --describe --group made --offsets --verbose
        share-groups --reset-offsets --group made --all-topics --to-latest --execute
        share-groups --reset-offsets --group made --all-topics --to-datetime 2023-11-14T22:13:22.000 --execute
        share-groups --reset-offsets --group made --topic filled --to-datetime noon --execute
        share-groups --reset-offsets --group made --topic gone --to-latest --execute
        share-groups --reset-offsets --group made --topic filled:9 --to-latest --execute
        share-groups --reset-offsets --group made --topic filled:x --to-latest --execute
        share-groups --reset-offsets --group gone --all-topics --to-latest --execute
        share-groups --reset-offsets --group stable --topic filled --to-latest --execute
        share-groups --describe --group made
        share-groups --describe --group made --state
        share-groups --describe --group made --members
    """,
    "share-groups: groups are described": """
        share-groups --describe --group stable
        share-groups --describe --group stable --members
        share-groups --describe --group stable --members --verbose
        share-groups --describe --group stable --state
        share-groups --describe --group stable --state --verbose
        share-groups --describe --group gone
        share-groups --describe --group gone --members
        share-groups --describe --group simple
        share-groups --describe --group stable --group gone --state
    """,
    "share-groups: groups are listed": """
        share-groups --list
        share-groups --list --state
        share-groups --list --state stable
        share-groups --list --state Empty,dead
        share-groups --list --state bogus
    """,
    "share-groups: offsets and groups are deleted": """
        share-groups --reset-offsets --group short-lived --topic filled --topic overridden --to-earliest --execute
        share-groups --delete-offsets --group short-lived --topic filled
        share-groups --describe --group short-lived
        share-groups --delete-offsets --group short-lived --topic filled --topic gone --topic overridden
        share-groups --delete-offsets --group gone --topic filled
        share-groups --delete-offsets --group stable --topic filled
        share-groups --delete --group short-lived
        share-groups --delete --group short-lived --group stable --group gone
        share-groups --describe --group short-lived
    """,
    "share-groups: wrong usage is refused": """
        share-groups
        share-groups --help
        share-groups --version
        share-groups --frob
        share-groups --group
        share-groups --list --describe --group a
        share-groups --members --list
        share-groups --describe
        share-groups --describe --group a --members --state
        share-groups --describe --group a --state x
        share-groups --describe --group a --all-groups
        share-groups --describe --group a --topic b
        share-groups --list --group a
        share-groups --delete
        share-groups --delete --group a --all-groups
        share-groups --delete --group a --topic b
        share-groups --delete-offsets --group a
        share-groups --reset-offsets --group a --dry-run --execute
        share-groups --reset-offsets --group a
        share-groups --reset-offsets --execute
        share-groups --reset-offsets --group a --execute
        share-groups --reset-offsets --group a --topic b --execute
        share-groups --reset-offsets --group a --topic b --execute --to-latest --to-earliest
        share-groups --reset-offsets --all-groups --topic b --execute --to-latest
        share-groups --command-config none.properties --list
    """,
}
_SETS = re.compile(r"(?<=Valid states are: ).*")


def prepare(tools: Runs, broker: Broker) -> None:
    """Create topics, and a share group with a member if the broker supports it."""
    tool_scenarios.prepare(tools, broker)
    if isinstance(broker, ApacheKafka):
        newer_members.join_share_group(broker.bootstrap, "stable", "member-1", ["filled", "overridden"])


def normalized(command: str, printed: Printed) -> Printed:
    """Sort sets."""
    texts = (_SETS.sub(lambda found: ", ".join(sorted(found.group().split(", "))), text) for text in printed[1:])
    return Printed(printed.code, *texts)
