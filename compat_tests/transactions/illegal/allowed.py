"""The table of all allowed differences, and of scenarios that Apache Kafka 4.3.1 is not asked. Each has its reason."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from compat_tests.differential.both import Difference


class Allowed(NamedTuple):
    """An allowed difference: names of scenarios and places in answers (regular expressions), the reason, both values.

    `...` stands for any value. After a difference that `parts` the brokers the scenario ends.
    """

    scenarios: str
    where: str
    reason: str
    ottla: Any = ...
    kafka: Any = ...
    parts: bool = False

    def covers(self, scenario: str, found: Difference) -> bool:
        """Whether a found difference is this one."""
        is_here = re.search(self.scenarios, scenario) and re.search(self.where, found.where)
        values = ((self.ottla, found.ottla), (self.kafka, found.kafka))
        return bool(is_here) and all(a is ... or a == b for a, b in values)


_UNSUPPORTED_VERSION: Final = 35
_ADDING: Final = (
    "a broker that adds partitions needs transaction version 2, which Ottla has not yet. Kafka 3.9 adds them as for a "
    "client, although no broker asks for it. Kafka 4.3 refuses the whole request, and the id stays busy"
)
_EPOCHS: Final = (
    "as in Kafka 4.3, an append belongs to the open transaction only if its epoch is that of the transaction. Kafka "
    "3.9 compares no epochs before it appends: a higher one is appended, and a lower one is refused later"
)
_FAILS: Final = "Kafka fails with UNKNOWN_SERVER_ERROR; Ottla answers a specific error"
_TOO_OLD: Final = "4.3.1 answers otherwise than 3.9.2, which Ottla follows"

_OF_BOTH: Final = (
    Allowed(".", "^WriteTxnMarkers .*error_code$", _FAILS, 42, -1),
    Allowed("by brokers, no partition", "transaction_state$|start_time_ms$", _ADDING, parts=True),
)
FROM_3_9: Final[Sequence[Allowed]] = (
    *_OF_BOTH,
    Allowed(".", "^AddPartitionsToTxn v[45].*partition_error_code$", _ADDING, _UNSUPPORTED_VERSION, parts=True),
    Allowed("the next epoch$|with another id$", "^Produce .*error_code$", _EPOCHS, 47, parts=True),
    Allowed("the next epoch$", "^Produce .*base_offset$", _EPOCHS, -1, parts=True),
    Allowed("epoch|fenced", "^Produce .*log_start_offset$", _EPOCHS, -1, 0),
    Allowed("^Produce: without acks", "^Produce .*closed$", _EPOCHS, True, "nothing", parts=True),
    Allowed("wrong epochs", "^TxnOffsetCommit .*error_code$", _EPOCHS, 47, 0, parts=True),
    Allowed(
        "TxnOffsetCommit: by one that was fenced",
        "^OffsetFetch .*error_code$",
        "a refused commit makes Kafka 3.9 forget the pending offset of the same partition by the next epoch",
        *(88, 0),
    ),
    Allowed(
        "^Prepare",
        "^(AddPartitions|AddOffsets)ToTxn .*error_code$",
        "as in Kafka 4, a transition that is under way is looked for before the producer's epoch",
        51,
    ),
)
FROM_4_3: Final[Sequence[Allowed]] = (
    *_OF_BOTH,
    Allowed(".", "^AddPartitionsToTxn v[45].(error_code|results_by_transaction)", _ADDING, parts=True),
    Allowed("unknown group with a generation", "^TxnOffsetCommit .*error_code$", _TOO_OLD, 25, 22),
    Allowed("^FindCoordinator", "error_code$", _TOO_OLD, 15, 42),
)
