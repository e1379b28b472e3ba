"""kafka-broker-api-versions."""

from compat_tests.tools import tool_scenarios

COMMANDS = {
    **tool_scenarios.of_tool("broker-api-versions"),
    "broker-api-versions: wrong usage is refused": """
        broker-api-versions
        broker-api-versions --help
        broker-api-versions --version
        broker-api-versions --frob
        broker-api-versions --bootstrap-server
        broker-api-versions --command-config hasty.properties --bootstrap-server BOOTSTRAP
        broker-api-versions --command-config missing.properties --bootstrap-server BOOTSTRAP
        broker-api-versions --bootstrap-server 127.0.0.1:1 --command-config hasty.properties
    """,
}
