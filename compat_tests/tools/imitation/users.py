"""kafka-configs for the SCRAM credentials of users."""

import re

from compat_tests.support.tools import Printed

COMMANDS = {
    "users: credentials are set, described and deleted": """
        configs --describe --entity-type users
        configs --describe --user alice
        configs --alter --user alice --add-config SCRAM-SHA-256=[iterations=8192,password=secret]
        configs --describe --user alice
        configs --alter --user alice --add-config SCRAM-SHA-512=[password=secret]
        configs --describe --user alice
        configs --alter --user bob --add-config SCRAM-SHA-256=[password=one],SCRAM-SHA-512=[iterations=-1,password=two]
        configs --describe --user bob
        configs --alter --entity-type users --entity-name carol --add-config SCRAM-SHA-512=[password=a=b]
        configs --describe --entity-type users --entity-name carol
        configs --describe --entity-type users
        configs --alter --user alice --add-config SCRAM-SHA-256=[password=anew] --delete-config SCRAM-SHA-512
        configs --describe --user alice
        configs --alter --user alice --delete-config SCRAM-SHA-256
        configs --describe --user alice
        configs --alter --user alice --delete-config SCRAM-SHA-256
        configs --alter --user bob --delete-config SCRAM-SHA-256,SCRAM-SHA-512
        configs --describe --user bob
    """,
    "users: a user may have quotas beside credentials": """
        configs --alter --user dave --add-config SCRAM-SHA-512=[password=secret]
        configs --alter --user dave --add-config consumer_byte_rate=1000
        configs --describe --user dave
    """,
    "users: credentials that cannot be are refused": """
        configs --alter --user eve --add-config SCRAM-SHA-256=secret
        configs --alter --user eve --add-config SCRAM-SHA-256=[iterations=4095,password=secret]
        configs --alter --user eve --add-config SCRAM-SHA-256=[iterations=99999,password=secret]
        configs --alter --user eve --add-config SCRAM-SHA-512=[iterations=99999999999,password=secret]
        configs --alter --user eve --add-config SCRAM-SHA-512=[iterations=,password=secret]
        configs --alter --user eve --add-config SCRAM-SHA-512=[iterations=many,password=secret]
        configs --alter --user eve --add-config SCRAM-SHA-1=[password=secret]
        configs --alter --user eve --add-config SCRAM-SHA-256=[password=secret] --delete-config SCRAM-SHA-256
        configs --alter --user eve --delete-config SCRAM-SHA-256
        configs --describe --user eve
    """,
}


def normalized(command: str, printed: Printed) -> Printed:
    """Sort the credentials of a user, because their order differs in each run of a KRaft broker."""
    return printed._replace(stdout=re.sub(r"(?<= are )SCRAM.*", _sorted, printed.stdout))


def _sorted(found: re.Match[str]) -> str:
    return ", ".join(sorted(found.group().split(", ")))
