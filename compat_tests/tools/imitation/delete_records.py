"""kafka-delete-records."""

from typing import Any

from compat_tests.support.tools import Printed
from compat_tests.tools import tool_scenarios

prepare = tool_scenarios.prepare
FILES: dict[str, Any] = {
    **tool_scenarios.FILES,
    "empty.json": "",
    "no-json.json": "{",
    "no-object.json": [1],
    "no-partitions.json": {"version": 1},
    "no-topic.json": {"partitions": [{"partition": 0, "offset": 1}]},
    "text-offset.json": {"partitions": [{"topic": "deleted", "partition": 0, "offset": "1"}]},
    "object.json": {"partitions": {"topic": "deleted"}},
    "several.json": {
        "partitions": [
            {"topic": topic, "partition": number, "offset": offset}
            for topic, number, offset in (("filled", 2, -1), ("deleted", 0, 3), ("filled", 0, 1), ("overridden", 1, 0))
        ]
    },
}
COMMANDS = {
    **{
        name: "\n".join(line for line in commands.splitlines() if "get-offsets" not in line)
        for name, commands in tool_scenarios.SCENARIOS.items()
        if name == "records are deleted"
    },
    "delete-records: several partitions": """
        delete-records --offset-json-file several.json
        delete-records --offset-json-file several.json
    """,
    "delete-records: wrong usage is refused": """
        delete-records
        delete-records --help
        delete-records --version
        delete-records --frob
        delete-records --offset-json-file
        delete-records --command-config hasty.properties
        delete-records --offset-json-file empty.json
        delete-records --offset-json-file no-json.json
        delete-records --offset-json-file no-object.json
        delete-records --offset-json-file no-partitions.json
        delete-records --offset-json-file no-topic.json
        delete-records --offset-json-file text-offset.json
        delete-records --offset-json-file object.json
        delete-records --offset-json-file two.json --command-config no-such.properties
    """,
}


def normalized(command: str, printed: Printed) -> Printed:
    """Sort the lines of partitions, because their order is random in Kafka 4.3."""
    lines = printed.stdout.splitlines()
    found = sorted(each for each in lines if each.startswith("partition: "))
    others = [each for each in lines if not each.startswith("partition: ")]
    return Printed(printed.code, "\n".join([*others, *found]), printed.stderr)
