"""kafka-log-dirs."""

from compat_tests.tools import tool_scenarios

prepare = tool_scenarios.prepare
COMMANDS = {
    **tool_scenarios.of_tool("log-dirs"),
    "log-dirs: wrong usage is refused": """
        log-dirs
        log-dirs --help
        log-dirs --version
        log-dirs --frob
        log-dirs --topic-list filled
        log-dirs --describe --topic-list
        log-dirs --describe --broker-list 1,x
        log-dirs --describe --broker-list ,1,
        log-dirs --describe --topic-list ,
        log-dirs --describe --command-config no-such.properties
    """,
}
