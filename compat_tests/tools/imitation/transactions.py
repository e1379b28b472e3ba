"""kafka-transactions, and kafka-acls and kafka-delegation-tokens without authentication."""

import re

from compat_tests.support.brokers import Broker
from compat_tests.support.tools import Printed, Runs
from compat_tests.support.transactional import Transactions

_UNVERIFIED = ["transaction.partition.verification.enable=false", "transaction.state.log.num.partitions=2"]
SETTINGS = dict.fromkeys(("Ottla", "Kafka", "Kafka 3.9"), _UNVERIFIED)
FILES = {"plain.properties": "request.timeout.ms=20000\n"}
COMMANDS = {
    "transactions: states are listed and described": """
        transactions list
        transactions list --duration-filter 0
        transactions list --duration-filter 100000000
        transactions list --duration-filter -1
        transactions --command-config plain.properties list
        transactions describe --transactional-id tx-committed
        transactions describe --transactional-id tx-aborted
        transactions describe --transactional-id tx-empty
        transactions describe --transactional-id tx-open
        transactions describe --transactional-id tx-missing
        transactions list --transactional-id-pattern tx-.*ed
    """,
    "transactions: producers are described": """
        transactions describe-producers --topic sold --partition 0
        transactions describe-producers --topic sold --partition 1
        transactions describe-producers --topic sold --partition 1 --broker-id 1
        transactions --command-config hasty.properties describe-producers --topic sold --partition 1 --broker-id 7
    """,
    "transactions: hanging ones are found": """
        transactions find-hanging --broker-id 1
        transactions find-hanging --broker-id 1 --max-transaction-timeout 0
        transactions find-hanging --topic sold --max-transaction-timeout 0
        transactions find-hanging --topic sold --partition 1 --max-transaction-timeout 0
        transactions find-hanging --topic sold --partition 0 --max-transaction-timeout 0
        transactions find-hanging --topic missing
        transactions find-hanging --broker-id 7
        transactions find-hanging
        transactions find-hanging --partition 0
    """,
    "transactions: what cannot be aborted": """
        transactions abort --topic sold --partition 1 --start-offset 77
        transactions abort --topic sold --partition 1
        transactions abort --topic sold --partition 1 --producer-id 1
        transactions abort --topic sold --partition 1 --producer-id 1 --producer-epoch 0
    """,
    "transactions: hanging and open ones are aborted": """
        transactions abort --topic sold --partition 1 --start-offset 1
        transactions find-hanging --topic sold --max-transaction-timeout 0
        transactions forceTerminateTransaction --transactionalId tx-open
        transactions describe --transactional-id tx-open
        transactions forceTerminateTransaction --transactionalId tx-open
        transactions describe-producers --topic sold --partition 0
    """,
    "transactions: wrong usage is refused": """
        transactions
        transactions --help
        transactions list --help
        transactions --version
        transactions frob
        transactions lst
        transactions --frob list
        transactions list --frob
        transactions list --duration-filter long
        transactions list --duration-filter
        transactions describe
        transactions describe-producers --topic sold
        transactions describe-producers --topic sold --partition x
        transactions abort --topic sold
        transactions abort --topic sold --partition 0 --producer-epoch 70000
        transactions find-hanging --max-transaction-timeout x
        transactions --command-config missing.properties list
    """,
    "transactions: tools for security without an authorizer": """
        acls --list
        acls --add --allow-principal User:alice --operation Read --topic refused
        acls --remove --topic refused --force
        delegation-tokens --command-config plain.properties --describe
        delegation-tokens --command-config plain.properties --create --max-life-time-period -1
        delegation-tokens --command-config plain.properties --renew --hmac bm9ib2R5cw== --renew-time-period -1
        delegation-tokens --command-config plain.properties --expire --hmac bm9ib2R5cw== --expiry-time-period -1
    """,
}
_TIME = re.compile(r"\b1[789]\d{11}\b")
_DURATION = re.compile(r"(T{13} *\t)\d+ *(?=\t)")


def prepare(tools: Runs, broker: Broker) -> Transactions:
    """Create transactions in every state."""
    return Transactions(broker.bootstrap)


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out times, but keep the width of their columns."""
    stdout = _DURATION.sub(r"\1DURATION", _TIME.sub("T" * 13, printed.stdout))
    return Printed(printed.code, stdout, printed.stderr)
