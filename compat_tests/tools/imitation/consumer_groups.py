"""kafka-consumer-groups."""

import contextlib
import re

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, ZooKeeperKafka
from compat_tests.support.tools import Printed, Runs
from compat_tests.tools import group_scenarios

FILES = {
    **group_scenarios.FILES,
    "plan-too-long.csv": '"filled",0,2,7\n',
    "plan-wrong-later.csv": '"filled",0,2\n"filled",1,many\n',
    "plan-of-numbers.csv": '"1","2","3"\n',
}
SETTINGS = dict.fromkeys((Ottla.name, ApacheKafka.name, ZooKeeperKafka.name), group_scenarios.SETTINGS)
COMMANDS = {
    **group_scenarios.SCENARIOS,
    "consumer-groups: more files are read": """
        consumer-groups --reset-offsets --group nobody --from-file plan-of-groups.csv --dry-run
        consumer-groups --reset-offsets --group file --from-file plan-too-long.csv --dry-run
        consumer-groups --reset-offsets --group file --from-file plan-wrong-later.csv --dry-run
        consumer-groups --reset-offsets --group a-name-of-more-than-24-letters --topic filled --to-earliest --export
    """,
    "consumer-groups: wrong usage is refused": """
        consumer-groups
        consumer-groups --help
        consumer-groups --version
        consumer-groups --frob
        consumer-groups --group
        consumer-groups --list --timeout x
        consumer-groups --list --timeout 1 --timeout 2
        consumer-groups --members --list
        consumer-groups --members --verbose --offsets --list
        consumer-groups --list --state bogus
        consumer-groups --list --type bogus
        consumer-groups --list --describe --group a
        consumer-groups --list --describe
        consumer-groups --describe
        consumer-groups --describe --group a --members --state
        consumer-groups --describe --group a --state x
        consumer-groups --delete
        consumer-groups --delete --group a --topic b
        consumer-groups --delete-offsets --group a
        consumer-groups --delete-offsets --group left --topic filled:x
        consumer-groups --reset-offsets --group a --dry-run --execute
        consumer-groups --reset-offsets --to-earliest
        consumer-groups --reset-offsets --group a --topic filled
        consumer-groups --reset-offsets --group a --to-earliest
        consumer-groups --reset-offsets --group a --topic filled --to-earliest --to-latest
        consumer-groups --reset-offsets --group a --topic filled --shift-by x
        consumer-groups --reset-offsets --group a --topic filled:x --to-earliest --execute
        consumer-groups --reset-offsets --group a --topic filled:1:2 --to-earliest --execute
        consumer-groups --reset-offsets --group a --topic filled --to-datetime 2023-11-31T22:13:22.000 --dry-run
        consumer-groups --reset-offsets --group a --topic filled --to-datetime 2023-11-30T22:13 --dry-run
        consumer-groups --reset-offsets --group a --topic filled --by-duration PT --dry-run
        consumer-groups --describe --group a --all-groups
        consumer-groups --describe --group a --topic b
        consumer-groups --command-config none.properties --list
    """,
    "consumer-groups: expressions are validated": r"""
        consumer-groups --validate-regex 'a.*'
        consumer-groups --validate-regex '(?<x>a)|(?P<y>b)'
        consumer-groups --validate-regex 'a['
        consumer-groups --validate-regex 'a('
        consumer-groups --validate-regex 'a)'
        consumer-groups --validate-regex '*a'
        consumer-groups --validate-regex 'a**'
        consumer-groups --validate-regex 'a{2,1}'
        consumer-groups --validate-regex '[z-a]'
        consumer-groups --validate-regex '(?=a)'
        consumer-groups --validate-regex '(a)\1'
        consumer-groups --validate-regex '\q'
    """,
}
_SETS = re.compile(r"(?<=options: ).*|(?<=scenarios: \[).*(?=\])|(?<=Valid states are: ).*|(?<=Valid types are: ).*")


def prepare(tools: Runs, broker: Broker) -> contextlib.ExitStack:
    """Create topics and groups, with members until the stack is closed."""
    stack = contextlib.ExitStack()
    stack.enter_context(group_scenarios.prepared(tools, broker))
    return stack


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out ids of members, the order of sets, and the reason of a client's timeout."""
    return Printed(printed.code, *(_normalized(command, text) for text in printed[1:]))


def _normalized(command: str, text: str) -> str:
    text = re.sub(r"(?m)^Caused by: \S+\.DisconnectException: .*\n", "", text)
    text = _SETS.sub(lambda found: ", ".join(sorted(found.group().split(", "))), text)
    text = group_scenarios.without_ids(text, command)
    if "--all-groups" in command:  # in the order of a hash map whose keys have a new hash in each JVM
        text = "\n".join(" ".join(sorted(re.split(r"[\s',]+", line))) for line in text.split("\n"))
    return text
