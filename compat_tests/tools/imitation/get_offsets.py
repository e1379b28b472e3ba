"""kafka-get-offsets."""

from compat_tests.tools import tool_scenarios

prepare = tool_scenarios.prepare
COMMANDS = {
    **tool_scenarios.of_tool("get-offsets"),
    "get-offsets: patterns of topics and partitions": """
        get-offsets
        get-offsets --exclude-internal-topics
        get-offsets --topic-partitions filled
        get-offsets --topic-partitions filled:
        get-offsets --topic-partitions filled:1-
        get-offsets --topic-partitions filled:-1,overridden:-1
        get-offsets --topic-partitions :0
        get-offsets --topic-partitions filled:0,filled:2-9
        get-offsets --topic-partitions filled:x
        get-offsets --topic-partitions [:1
        get-offsets --topic [
        get-offsets --topic filled --partitions 2,0
        get-offsets --topic filled --time 1700000002500
        get-offsets --topic compacted|deleted --time -2
    """,
    "get-offsets: wrong usage is refused": """
        get-offsets --help
        get-offsets --version
        get-offsets --frob
        get-offsets --topic
        get-offsets --topic-partitions filled:0 --topic filled
        get-offsets --topic-partitions filled:0 --partitions 0
        get-offsets --topic filled --time 99999999999999999999
        get-offsets --topic filled --broker-list BOOTSTRAP
        get-offsets --broker-list BOOTSTRAP --topic filled
        get-offsets --topic filled --command-config no-such.properties
    """,
}
