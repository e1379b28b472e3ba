"""kafka-console-consumer and transactions: reading committed records, and __transaction_state as JSON."""

import re

from compat_tests.support.tools import Printed
from compat_tests.tools.imitation import transactions

SETTINGS = transactions.SETTINGS
prepare = transactions.prepare
# Producer ids and times are each cluster's own.
_OWN = re.compile(r'"(\w*(?:ProducerId|producerId|TimestampMs))":-?\d+')
_STATE = "console-consumer --topic __transaction_state --offset earliest --timeout-ms 3000"
_FORMATTER = "--formatter org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
COMMANDS = {
    "console: records of transactions that are not committed are left out": """
        console-consumer --topic sold --partition 0 --offset earliest --timeout-ms 3000 --isolation-level read_committed
        console-consumer --topic sold --partition 0 --offset earliest --timeout-ms 3000
        console-consumer --topic sold --partition 1 --offset earliest --timeout-ms 3000 --isolation-level read_committed
        console-consumer --topic sold --partition 1 --offset earliest --timeout-ms 3000
    """,
    "console: states of transactions are printed as JSON": f"""
        {_STATE} --partition 0 {_FORMATTER}
        {_STATE} --partition 1 {_FORMATTER}
    """,
}


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out numbers that differ between clusters, and the log lines of a tool's timeout."""
    return printed._replace(stdout=_OWN.sub(r'"\1":0', printed.stdout), stderr="")
