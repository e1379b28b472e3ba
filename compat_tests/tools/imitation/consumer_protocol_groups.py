"""kafka-consumer-groups on groups of the consumer protocol (KIP-848)."""

import contextlib
import re

from compat_tests.support.brokers import ApacheKafka, Broker
from compat_tests.support.tools import Printed, Runs
from compat_tests.tools import group_scenarios
from compat_tests.tools.group_scenarios import Members, commit, make_topics, wait_for_members
from compat_tests.tools.imitation import consumer_groups

BROKERS = (ApacheKafka.name,)
FILES = group_scenarios.FILES
SETTINGS = {ApacheKafka.name: group_scenarios.SETTINGS}
COMMANDS = {
    "consumer-groups: groups of the consumer protocol are listed": """
        consumer-groups --list
        consumer-groups --list --state --type
        consumer-groups --list --type consumer
        consumer-groups --list --type classic --state
        consumer-groups --list --type consumer --state empty
    """,
    "consumer-groups: groups of the consumer protocol are described": """
        consumer-groups --describe --group new
        consumer-groups --describe --group new --verbose
        consumer-groups --describe --group new --members
        consumer-groups --describe --group new --members --verbose
        consumer-groups --describe --group new --state
        consumer-groups --describe --group new --state --verbose
        consumer-groups --describe --group static --members --verbose
        consumer-groups --describe --group pair
        consumer-groups --describe --group pair --members --verbose
        consumer-groups --describe --group mixed --members --verbose
        consumer-groups --describe --group mixed --state --verbose
        consumer-groups --describe --group departed
        consumer-groups --describe --group departed --members --verbose
        consumer-groups --describe --group departed --state --verbose
        consumer-groups --describe --group new --group gone
        consumer-groups --describe --all-groups --state
    """,
    "consumer-groups: groups of the consumer protocol are reset and deleted": """
        consumer-groups --reset-offsets --group new --all-topics --to-earliest --execute
        consumer-groups --reset-offsets --group departed --all-topics --to-earliest --execute
        consumer-groups --describe --group departed --verbose
        consumer-groups --reset-offsets --group departed --topic filled --shift-by 1 --execute
        consumer-groups --delete-offsets --group departed --topic filled:0
        consumer-groups --delete-offsets --group new --topic filled
        consumer-groups --delete-offsets --group new --topic other
        consumer-groups --delete --group new --group departed
        consumer-groups --describe --group departed
    """,
}


def prepare(tools: Runs, broker: Broker) -> contextlib.ExitStack:
    """Create topics and groups, with members until the stack is closed."""
    make_topics(broker)
    new = {"group_protocol": "consumer", "partition_assignment_strategy": None}
    with Members(broker.bootstrap) as leaving:
        leaving.add("departed", "leaver", ["filled"], **new)
        wait_for_members(tools, broker, "departed", 1)
    commit(broker, "departed", "filled", {0: 3})
    commit(broker, "new", "filled", {0: 1, 1: 5})
    commit(broker, "new", "other", {0: 3})
    stack = contextlib.ExitStack()
    members = stack.enter_context(Members(broker.bootstrap))
    members.add("new", "one", ["filled"], **new)
    members.add("static", "two", ["filled", "other"], group_instance_id="first", **new)
    # The assignment must not depend on random member ids.
    members.add("pair", "three", ["filled"], **new)
    wait_for_members(tools, broker, "pair", 1)
    members.add("pair", "four", ["other"], **new)
    members.add("mixed", "five", ["filled"], **new)
    wait_for_members(tools, broker, "mixed", 1)
    members.add("mixed", "six", ["other"])
    for group, count in (("new", 1), ("static", 1), ("pair", 2), ("mixed", 2)):
        wait_for_members(tools, broker, group, count)
    return stack


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out ids of members, which their clients choose."""
    texts = [re.sub(r"(?<!\S)[\w+/-]{22}(?!\S)", "ID", text) for text in printed[1:]]
    return consumer_groups.normalized(command, Printed(printed.code, *texts))
