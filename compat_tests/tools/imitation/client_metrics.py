"""kafka-client-metrics, and kafka-configs for its subscriptions."""

import re

from compat_tests.support.tools import Printed

COMMANDS = {
    "client-metrics: wrong usage is refused": """
        client-metrics
        client-metrics --help
        client-metrics --version
        client-metrics --frob
        client-metrics --list --describe
        client-metrics --list --name a
        client-metrics --delete
        client-metrics --delete --name a --interval 5
        client-metrics --describe --name a --match client_id=b
        client-metrics --describe --name a --name b
        client-metrics --alter
        client-metrics --alter --name a --generate-name
        client-metrics --alter --name a --interval often
        client-metrics --alter --name a --interval
        client-metrics --command-config no-such-file.properties --list
    """,
    "client-metrics: subscriptions are altered, described and deleted": """
        client-metrics --list
        client-metrics --describe
        client-metrics --describe --name first
        client-metrics --alter --name first --metrics a.b,c --interval 30000 --match client_id=x,client_software_name=y
        client-metrics --list
        client-metrics --describe --name first
        client-metrics --describe
        configs --describe --entity-type client-metrics
        configs --describe --entity-type client-metrics --entity-name first
        configs --describe --entity-type client-metrics --entity-name gone
        configs --alter --entity-type client-metrics --entity-name first --add-config interval.ms=45000
        configs --describe --entity-type client-metrics --entity-name first --all
        configs --alter --entity-type client-metrics --entity-name first --delete-config interval.ms
        configs --alter --entity-type client-metrics --entity-name first --delete-config interval.ms
        configs --alter --entity-type client-metrics --entity-name first --add-config bogus=1
        client-metrics --describe --name first
        client-metrics --alter --name first --metrics *
        client-metrics --describe --name first
        client-metrics --alter --name first --interval 5
        client-metrics --alter --name first --match colour=blue
        client-metrics --alter --name second --interval 60000
        client-metrics --describe --name second
        client-metrics --alter --generate-name --interval 70000
        client-metrics --delete --name first
        client-metrics --describe --name first
        client-metrics --delete --name gone
        client-metrics --delete --name second
    """,
    "client-metrics: configs are altered in both spellings": """
        configs --alter --client-metrics third --add-config metrics=[a.b,c.d],interval.ms=40000
        configs --describe --client-metrics third
        client-metrics --alter --name third --metrics= --match=
        client-metrics --alter --name third --interval=
        client-metrics --describe --name third
    """,
}


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out random names."""
    return printed._replace(stdout=re.sub(r"\b[\w-]{22}\b", "ID", printed.stdout))
