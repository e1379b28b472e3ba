"""kafka-topics."""

from compat_tests.tools import tool_scenarios

prepare = tool_scenarios.prepare
COMMANDS = {
    **tool_scenarios.of_tool("topics"),
    "topics: wrong usage is refused": """
        topics
        topics --help
        topics --version
        topics --frob
        topics --topic
        topics --list --create
        topics --list --topic a --topic b
        topics --create
        topics --create --topic new --partitions many
        topics --create --topic new --partitions=0
        topics --create --topic new --config novalue
        topics --create --topic new --replica-assignment 1:x
        topics --create --topic new --replica-assignment 1:1
        topics --create --topic new --replica-assignment 1,1:2
        topics --alter --topic new
        topics --delete
        topics --list --partitions 3
        topics --list --if-exists
        topics --describe --if-exists
        topics --describe --under-replicated-partitions --topics-with-overrides
        topics -list
    """,
}
