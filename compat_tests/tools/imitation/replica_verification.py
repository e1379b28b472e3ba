"""kafka-replica-verification with command lines that end. `test_cluster_shims` has its output while it runs."""

from compat_tests.tools import tool_scenarios

prepare = tool_scenarios.prepare
COMMANDS = {
    "replica-verification: what ends at once": """
        replica-verification
        replica-verification --help
        replica-verification --version
        replica-verification --frob
        replica-verification --topics-include filled
        replica-verification --broker-list BOOTSTRAP --topics-include gone
        replica-verification --broker-list BOOTSTRAP --topics-include [
        replica-verification --broker-list BOOTSTRAP --time noon
        replica-verification --broker-list BOOTSTRAP --fetch-size many
        replica-verification --broker-list BOOTSTRAP --topics-include a --topics-include b
        replica-verification --broker-list BOOTSTRAP --topic-white-list gone
        replica-verification --broker-list BOOTSTRAP --topic-white-list gone --topics-include gone
        replica-verification --broker-list nowhere,BOOTSTRAP
    """,
}
