"""kafka-acls."""

import re

from compat_tests.support.brokers import ApacheKafka, Broker
from compat_tests.support.tools import Printed, Runs

SETTINGS = {
    "Kafka": [
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
    ],
    "Kafka 3.9": ["authorizer.class.name=kafka.security.authorizer.AclAuthorizer", "super.users=User:ANONYMOUS"],
}
QUICK = "Kafka"
FILES = {"plain.properties": "request.timeout.ms=20000\n"}
COMMANDS = {
    "acls: entries are added and listed": """
        acls --list
        acls --add --allow-principal User:alice --operation Read --topic added
        acls --add --allow-principal User:alice --operation Read --topic added
        acls --list --topic added
        acls --add --allow-principal User:al --allow-principal User:b --operation Write --operation read --topic added
        acls --add --deny-principal User:eve --deny-host 10.0.0.1 --deny-host 10.0.0.2 --topic added
        acls --add --allow-principal User:alice --allow-host 10.0.0.3 --deny-principal User:eve --topic added
        acls --add --allow-principal User:alice --operation All --topic * --topic both
        acls --add --allow-principal User:alice --operation Read --topic pre --resource-pattern-type prefixed
        acls --add --allow-principal User:alice --operation ClusterAction --cluster
        acls --add --allow-principal User:alice --operation Read --group added
        acls --add --allow-principal User:alice --operation Write --transactional-id added
        acls --add --allow-principal User:alice --operation Describe --delegation-token added
        acls --add --allow-principal User:alice --operation CreateTokens --user-principal User:added
        acls --add --command-config plain.properties --allow-principal User:alice --operation alterconfigs --topic added
        acls --list --topic added
        acls --list --topic prefix --resource-pattern-type match
        acls --list --topic pre --resource-pattern-type any
        acls --list --topic pre --resource-pattern-type prefixed
        acls --list --cluster
        acls --list --group added
        acls --list --group missing --topic missing
        acls --list --transactional-id added
        acls --list --delegation-token added
        acls --list --user-principal User:added
        acls --list --topic added --principal User:alice
        acls --list --topic added --principal User:alice --principal User:nobody
        acls --list --topic added --group added --principal
    """,
    "acls: what producers and consumers need is added": """
        acls --add --allow-principal User:carol --producer --topic made
        acls --list --topic made
        acls --add --allow-principal User:carol --producer --topic made-2 --transactional-id made --idempotent
        acls --list --topic made-2 --transactional-id made --cluster
        acls --add --allow-principal User:carol --consumer --topic made-3 --group made
        acls --list --topic made-3 --group made
        acls --add --allow-principal User:dora --producer --consumer --topic made-4 --group made-4
        acls --list --topic made-4 --group made-4
    """,
    "acls: entries are removed": """
        acls --add --allow-principal User:carl --operation Read --operation Write --operation Create --topic removed
        acls --add --allow-principal User:carl --operation Read --topic removed --resource-pattern-type prefixed
        acls --remove --allow-principal User:carl --operation Read --topic removed --force
        acls --list --topic removed
        acls --remove --allow-principal User:carl --operation Read --topic removed --force
        acls --remove --topic removed --resource-pattern-type any --force
        acls --list --topic removed --resource-pattern-type any
        acls --add --allow-principal User:carl --consumer --topic removed --group removed
        acls --remove --allow-principal User:carl --consumer --topic removed --group removed --force
        acls --list --topic removed --group removed
        acls --remove --topic missing --force
    """,
    "acls: controllers are asked, and brokers are no controllers": """
        acls --bootstrap-controller BOOTSTRAP_OF_CONTROLLER --add --allow-principal User:a --operation Read --topic told
        acls --bootstrap-controller BOOTSTRAP_OF_CONTROLLER --list --topic told
        acls --bootstrap-controller BOOTSTRAP_OF_CONTROLLER --remove --topic told --force
        acls --bootstrap-controller BOOTSTRAP_OF_CONTROLLER --list --topic told
        acls --bootstrap-controller BOOTSTRAP --list
    """,
    "acls: entries that cannot be are refused": """
        acls --add --allow-principal User:carl --operation Read --group with/slash
        acls --add --allow-principal alice --operation Read --topic refused
        acls --add --allow-principal User:carl --operation Any --topic refused
        acls --add --allow-principal User:carl --operation Frob --topic refused
        acls --add --allow-principal User:carl --operation ClusterAction --topic refused
        acls --add --allow-principal User:carl --operation Read --transactional-id refused
        acls --add --allow-principal User:carl --operation Alter --group refused
        acls --add --allow-principal User:carl --operation Read --cluster
        acls --add --allow-principal User:carl --operation Read --delegation-token refused
        acls --add --allow-principal User:carl --operation Read --user-principal User:refused
        acls --list --principal alice
        acls --list --command-config missing.properties
    """,
    "acls: wrong usage is refused": """
        acls
        acls --help
        acls --version
        acls --frob
        acls --bootstrap-server
        acls --list --add
        acls --force
        acls --list --bootstrap-server BOOTSTRAP --bootstrap-controller BOOTSTRAP
        acls --list --producer
        acls --list --allow-principal User:alice
        acls --list --resource-pattern-type frob
        acls --list --resource-pattern-type unknown
        acls --add --topic wrong
        acls --add --allow-principal User:alice
        acls --add --allow-principal User:alice --topic wrong --resource-pattern-type any
        acls --add --allow-principal User:alice --cluster --resource-pattern-type prefixed
        acls --add --producer --topic wrong --operation Read
        acls --add --producer --allow-principal User:alice
        acls --add --consumer --allow-principal User:alice --topic wrong
        acls --add --consumer --allow-principal User:alice --topic wrong --group wrong --cluster
        acls --add --idempotent --topic wrong --allow-principal User:alice
        acls --add --topic wrong --principal User:alice --allow-principal User:alice
        acls --remove --force
        acls --remove --topic wrong --operation Read --resource-pattern-type frob
    """,
}
_ENTRY = re.compile(r"\(principal=[^)]*\)")
_RESOURCE = re.compile(r"^(?:Current|Adding) ACLs for resource.*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
_OPERATIONS = re.compile(r"(?<=only supports operations )\[?[\w, ]+\]?")


def prepare(tools: Runs, broker: Broker) -> None:
    """Note the controller's address; without KRaft the broker's."""
    where = broker.bootstrap
    if broker.name == ApacheKafka.name:
        found = re.search(r"CONTROLLER://(\S+)", (broker.data / "server.properties").read_text())
        assert found
        where = found[1]
    broker.names["BOOTSTRAP_OF_CONTROLLER"] = where


def normalized(command: str, printed: Printed) -> Printed:
    """Sort the lines that Kafka's tool prints in another order in each run."""
    stdout = _sorted(_RESOURCE, _RESOURCE.sub(lambda found: _sorted(_ENTRY, found.group()), printed.stdout))
    stderr = _OPERATIONS.sub(lambda found: " ".join(sorted(re.findall(r"\w+", found.group()))), printed.stderr)
    return Printed(printed.code, stdout, stderr)


def _sorted(pattern: re.Pattern[str], text: str) -> str:
    """Sort the matches of the pattern, and leave all other text at its place."""
    found = iter(sorted(pattern.findall(text)))
    return pattern.sub(lambda _: next(found), text)
