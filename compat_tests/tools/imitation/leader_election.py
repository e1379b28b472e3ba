"""kafka-leader-election."""

import re
from typing import Any

from compat_tests.support.tools import Printed
from compat_tests.tools import tool_scenarios

prepare = tool_scenarios.prepare
FILES: dict[str, Any] = {
    **tool_scenarios.FILES,
    "empty.json": "",
    "no-json.json": "[",
    "no-object.json": [1],
    "no-partitions.json": {"version": 1},
    "twice-elected.json": {"partitions": [{"topic": "filled", "partition": 0}] * 2},
    "text-partition.json": {"partitions": [{"topic": "filled", "partition": "0"}]},
    "many.json": {"partitions": [{"topic": name, "partition": each} for name in ("gone", "filled") for each in (0, 2)]},
}
COMMANDS = {
    **tool_scenarios.of_tool("leader-election"),
    "leader-election: several partitions": """
        leader-election --election-type PREFERRED --path-to-json-file many.json
        leader-election --election-type Unclean --path-to-json-file many.json
        leader-election --election-type preferred --topic filled --partition 1 --admin.config hasty.properties
    """,
    "leader-election: wrong usage is refused": """
        leader-election
        leader-election --help
        leader-election --version
        leader-election --frob
        leader-election --election-type
        leader-election --topic filled
        leader-election --election-type preferred
        leader-election --election-type preferred --topic filled
        leader-election --election-type preferred --partition 1 --all-topic-partitions
        leader-election --election-type preferred --topic filled --partition x
        leader-election --election-type preferred --topic filled --partition 1 --all-topic-partitions
        leader-election --election-type preferred --path-to-json-file no-such.json
        leader-election --election-type preferred --path-to-json-file empty.json
        leader-election --election-type preferred --path-to-json-file no-json.json
        leader-election --election-type preferred --path-to-json-file no-object.json
        leader-election --election-type preferred --path-to-json-file no-partitions.json
        leader-election --election-type preferred --path-to-json-file twice-elected.json
        leader-election --election-type preferred --path-to-json-file text-partition.json
        leader-election --election-type preferred --all-topic-partitions --command-config hasty.properties
        leader-election --election-type preferred --all-topic-partitions --admin.config a --command-config b
        leader-election --election-type preferred --all-topic-partitions --admin.config no-such.properties
    """,
}


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out the exceptions beside the one that ended the tool, which begin with a tab like a stack trace."""
    return Printed(printed.code, printed.stdout, re.sub(r"\n\t.*", "", printed.stderr))
