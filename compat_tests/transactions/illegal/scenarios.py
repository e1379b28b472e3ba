"""The table of named scenarios: illegal acts, and legal ones around them. `states` has each act in each state."""

from typing import Final

from compat_tests.differential.generated.own import Own
from compat_tests.transactions.illegal.acts import (
    ABORT,
    AHEAD,
    BEHIND,
    BESIDE,
    COMMIT,
    FIRST,
    GENERATION,
    HERE,
    JOINED,
    LONGEST_MS,
    MEMBER,
    MINE,
    MINUTE_MS,
    NOBODY,
    NOWHERE,
    OFFSETS,
    PLAIN,
    SAME,
    STRANGER,
    TRANSACTIONS,
    Act,
    Exactly,
    P,
    Place,
    Q,
    Who,
    add,
    add_offsets,
    batch,
    commit_offsets,
    create,
    delete,
    describe,
    end,
    entry,
    fetch_offsets,
    find,
    init,
    join,
    list_all,
    log_end,
    mark,
    marker,
    of_brokers,
    produce,
    producers,
    read,
    settle,
    sync,
    write,
)
from compat_tests.transactions.illegal.stage import Scenario

MAX_INT, MIN_INT, MAX_LONG = 2**31 - 1, -(2**31), 2**63 - 1
SECOND, THIRD = Who(1), Who(2)
OPEN: Final = (init(), add(HERE))
OPEN_WITH_DATA: Final = (*OPEN, write())
COMMITTED: Final = (*OPEN_WITH_DATA, end(COMMIT), settle("CompleteCommit"))
ABORTED: Final = (*OPEN_WITH_DATA, end(ABORT), settle("CompleteAbort"))
TIMED_OUT: Final = (init(timeout_ms=1), add(HERE), settle("CompleteAbort"))
BOTH_ENDS: Final = (log_end(0), log_end(1), read(0), read(1), producers())
OTHER: Final = Place(Own("topic", "mine"), (1,))
NO_PARTITION: Final = Place(BESIDE.topic, (99,))
LONG: Final = "x" * 300


def _all(api: str, *scenarios: tuple[str, tuple[Act, ...]]) -> list[Scenario]:
    return [Scenario(f"{api}: {name}", api, acts) for name, acts in scenarios]


_INIT: Final = _all(
    "InitProducerId",
    ("the empty id", (init(name=""),)),
    ("the empty id of a producer", (init(Exactly(5, 0), name=""),)),
    ("no id", (init(name=None),)),
    ("no id, but a producer", (init(Exactly(5, 0), name=None), init(Exactly(5, -1), name=None))),
    ("no id, and no time", (init(name=None, timeout_ms=0), init(name=None, timeout_ms=-1))),
    ("a long id, and one with odd letters", (init(name=Own("transactional_id", LONG)), init(name="é \n\t\0"))),
    ("a producer id without an epoch", (init(Exactly(5, -1)), describe())),
    ("an epoch without a producer id", (init(Exactly(-1, 5)), describe())),
    ("a negative producer", (init(Exactly(-2, -2)), init(Exactly(5, -2)), init(Exactly(-2, 5)), describe())),
    ("a producer that the id never had", (init(Exactly(4711, 3)), describe(), init(Exactly(4711, 0)))),
    ("no time at all", (init(timeout_ms=0), init(timeout_ms=-1), init(timeout_ms=MIN_INT), describe())),
    ("too much time", (init(timeout_ms=LONGEST_MS + 1), init(timeout_ms=MAX_INT), describe())),
    ("the longest and the shortest time", (init(), describe(), init(timeout_ms=1), describe())),
    ("again and again", (init(), init(), init(), describe())),
    ("with its own epoch", (init(), init(SAME), init(SAME), describe())),
    ("repeated, because the answer was lost", (init(), init(FIRST), init(FIRST), init(FIRST), describe())),
    ("repeated with other epochs", (init(), init(), init(FIRST), init(BEHIND), init(AHEAD), describe())),
    ("an epoch that is too old", (init(), init(), init(), init(FIRST), init(SAME), init(FIRST))),
    ("by the producer of another id", (init(), init(name=Q), init(SECOND), init(FIRST, name=Q), describe(P, Q))),
    ("by a stranger", (init(), init(STRANGER), init(Exactly(MAX_LONG, 32767)), describe())),
    ("the highest epoch", (init(), init(Exactly(0, 32767)), init(Who(0, 32767)), describe())),
    ("in an open transaction", (*OPEN_WITH_DATA, init(), settle("CompleteAbort"), init(), *BOTH_ENDS)),
    ("in an open transaction, with its epoch", (*OPEN_WITH_DATA, init(SAME), settle(), init(SAME), describe())),
    ("in an open transaction, with an old epoch", (init(), init(), add(HERE), init(FIRST), settle(), init(FIRST))),
    ("in an open transaction, by a stranger", (*OPEN, init(STRANGER), describe(), end(COMMIT), settle())),
    ("in an open transaction, with a bad timeout", (*OPEN, init(timeout_ms=0), describe())),
    ("after a commit", (*COMMITTED, init(), add(HERE), write(), end(COMMIT), settle(), *BOTH_ENDS)),
    ("after an abort, with its epoch", (*ABORTED, init(SAME), add(HERE), write(), end(COMMIT), settle(), *BOTH_ENDS)),
    ("after a commit, repeated", (*COMMITTED, init(SAME), init(FIRST), describe(), add(HERE, who=FIRST))),
    ("after a timeout", (*TIMED_OUT, init(), describe(), add(HERE), write(), end(COMMIT), settle(), *BOTH_ENDS)),
    ("after a timeout, with its epoch", (*TIMED_OUT, init(SAME), describe())),
    ("after a timeout, with the next epoch", (*TIMED_OUT, init(AHEAD), describe())),
    ("after a timeout without a producer's knowledge", (
        *TIMED_OUT, add(HERE), write(), end(COMMIT), add_offsets(), commit_offsets(), describe(),
    )),
    ("another timeout in an open transaction", (*OPEN, init(timeout_ms=MINUTE_MS), settle(), describe())),
    ("the earlier client fenced", (
        *OPEN_WITH_DATA, init(), settle(), init(), add(HERE, who=FIRST), write(FIRST, 1), end(COMMIT, FIRST),
        add_offsets(FIRST), commit_offsets(FIRST), describe(), add(HERE), write(FIRST, 1), write(), write(FIRST, 1),
    )),
)  # fmt: skip

_ADD: Final = _all(
    "AddPartitionsToTxn",
    ("the empty id", (add(HERE, who=STRANGER, name=""),)),
    ("an unknown id", (add(HERE, who=STRANGER), describe())),
    ("no producer", (*OPEN, add(BESIDE, who=Exactly(-1, -1)), add(BESIDE, who=Exactly(-1, 0)), describe())),
    ("negative epochs", (init(), add(HERE, who=BEHIND), add(HERE, who=Who(0, -32768)), describe())),
    ("the producer of another id", (init(), init(name=Q), add(HERE), add(HERE, who=FIRST, name=Q), describe(P, Q))),
    ("an unknown topic", (init(), add(NOWHERE), describe())),
    ("an unknown topic beside a known one", (init(), add(HERE, NOWHERE, BESIDE), describe())),
    ("a partition that is none", (init(), add(NO_PARTITION), add(Place(BESIDE.topic, (0, -1))), describe())),
    ("names that are none", (init(), add(Place("")), add(Place("a b")), add(Place("..")), describe())),
    ("internal topics", (init(), add(TRANSACTIONS), add(OFFSETS), add(HERE, TRANSACTIONS), describe())),
    ("nothing", (init(), add(), describe(), end(COMMIT), settle())),
    ("no partition of a topic", (init(), add(Place(BESIDE.topic, ())), describe(), end(ABORT), settle())),
    ("no partition of an unknown topic", (init(), add(Place(NOWHERE.topic, ())), describe())),
    ("a partition twice", (
        init(), add(HERE, HERE), add(Place(BESIDE.topic, (0, 0))), add(NOWHERE, HERE, NOWHERE, HERE), describe(),
    )),
    ("again", (*OPEN, add(HERE), add(HERE, BESIDE), add(BESIDE), describe())),
    ("unknown topic and wrong epoch", (init(), add(NOWHERE, who=AHEAD), add(NOWHERE, who=STRANGER), describe())),
    ("known partitions, wrong epoch", (*OPEN, add(HERE, who=AHEAD), add(HERE, who=STRANGER), describe())),
    ("after an end", (*COMMITTED, add(HERE), write(sequence=1), end(ABORT), settle(), *BOTH_ENDS)),
    ("a topic that is deleted", (
        create(), init(), add(MINE), write(place=MINE), delete(), add(MINE), describe(), end(COMMIT), settle(),
    )),
)  # fmt: skip
_VERIFY: Final = _all(
    "AddPartitionsToTxn",
    ("by brokers, no partition", (init(), of_brokers(entry()), of_brokers(entry(verify=False)), describe())),
    ("by brokers, the empty id", (of_brokers(entry(HERE, who=STRANGER, name="")),)),
    ("by brokers, the empty id, to add", (of_brokers(entry(HERE, who=STRANGER, name="", verify=False)),)),
    ("by brokers, an unknown id", (of_brokers(entry(HERE, who=STRANGER)), of_brokers(entry(HERE, verify=False)))),
    ("by brokers, partitions that are in it and others", (*OPEN, of_brokers(entry(HERE, BESIDE, NOWHERE)))),
    ("by brokers, an unknown topic to add", (init(), of_brokers(entry(HERE, NOWHERE, verify=False)), describe())),
    ("by brokers, a partition that is none to add", (
        init(), of_brokers(entry(NO_PARTITION, verify=False)), describe(),
    )),
    ("by brokers, internal topics to add", (init(), of_brokers(entry(TRANSACTIONS, verify=False)), describe())),
    ("by brokers, added and verified", (
        init(), of_brokers(entry(HERE, verify=False)), of_brokers(entry(HERE)), write(), end(COMMIT), settle(),
        of_brokers(entry(HERE)), *BOTH_ENDS,
    )),
    ("by brokers, several transactions", (
        init(), init(name=Q), add(HERE, who=FIRST),
        of_brokers(entry(HERE, who=FIRST), entry(HERE, name=Q), entry(HERE, name=NOBODY)),
        of_brokers(entry(BESIDE, who=FIRST), entry(BESIDE, name=Q), entry(BESIDE, name="")), describe(P, Q),
        of_brokers(entry(BESIDE, who=FIRST), entry(BESIDE, name=Q, verify=False)), describe(P, Q),
    )),
    ("by brokers, one transaction twice", (
        *OPEN, of_brokers(entry(HERE), entry(BESIDE)), of_brokers(entry(BESIDE), entry(HERE, NOWHERE)),
        describe(),
    )),
    ("by brokers, a partition twice", (*OPEN, of_brokers(entry(HERE, HERE)), of_brokers(entry(BESIDE, BESIDE, HERE)))),
    ("by brokers, wrong epochs", (
        *OPEN, of_brokers(entry(HERE, who=AHEAD)), of_brokers(entry(HERE, who=BEHIND)),
        of_brokers(entry(HERE, who=Exactly(-1, -1))), of_brokers(entry(BESIDE, who=AHEAD, verify=False)), describe(),
    )),
)  # fmt: skip

_ADD_OFFSETS: Final = _all(
    "AddOffsetsToTxn",
    ("the empty id", (add_offsets(STRANGER, name=""),)),
    ("an unknown id", (add_offsets(STRANGER), describe())),
    ("the empty group", (init(), add_offsets(group=""), describe())),
    ("an odd group", (init(), add_offsets(group="é \n"), describe())),
    ("the producer of another id", (init(), init(name=Q), add_offsets(), describe(P, Q))),
    ("two groups", (*OPEN, add_offsets(group="a"), add_offsets(group="b"), describe(), end(COMMIT), settle())),
    ("wrong epochs", (*OPEN, add_offsets(AHEAD), add_offsets(BEHIND), add_offsets(Exactly(-1, -1)), describe())),
)

_END: Final = _all(
    "EndTxn",
    ("the empty id", (end(COMMIT, STRANGER, name=""),)),
    ("an unknown id", (end(COMMIT, STRANGER), end(ABORT, STRANGER), describe())),
    ("nothing to end", (init(), end(COMMIT), end(ABORT), describe())),
    ("committed, and then", (*COMMITTED, end(COMMIT), end(ABORT), end(COMMIT), describe(), *BOTH_ENDS)),
    ("aborted, and then", (*ABORTED, end(ABORT), end(COMMIT), end(ABORT), describe(), *BOTH_ENDS)),
    ("without data", (*OPEN, end(COMMIT), settle("CompleteCommit"), *BOTH_ENDS)),
    ("wrong epochs", (*OPEN, end(COMMIT, AHEAD), end(ABORT, BEHIND), end(COMMIT, Exactly(-1, -1)), describe())),
    ("wrong producers", (
        *OPEN, init(name=Q), end(COMMIT), end(ABORT, STRANGER), end(COMMIT, FIRST, name=Q), describe(),
    )),
    ("by one that was fenced", (*OPEN, init(), settle(), init(), end(COMMIT, FIRST), end(ABORT, FIRST), describe())),
    ("after a timeout", (*TIMED_OUT, end(ABORT), end(COMMIT), end(ABORT, AHEAD), end(COMMIT, AHEAD), describe())),
    ("after InitProducerId", (*COMMITTED, init(), end(COMMIT), end(ABORT), end(COMMIT, FIRST), describe())),
    ("two transactions", (
        *COMMITTED, add(HERE, BESIDE), write(sequence=1), end(ABORT), settle("CompleteAbort"),
        add(HERE), write(sequence=2), end(COMMIT), settle("CompleteCommit"), *BOTH_ENDS,
    )),
    ("its topic is gone", (
        create(partitions=2), init(), add(MINE, OTHER, HERE), write(place=MINE), write(), delete(), end(COMMIT),
        settle("CompleteCommit"), *BOTH_ENDS,
    )),
)  # fmt: skip

_COMMIT_OFFSETS: Final = _all(
    "TxnOffsetCommit",
    ("the empty id", (commit_offsets(STRANGER, name=""),)),
    ("an unknown id", (commit_offsets(STRANGER), describe())),
    ("not added", (*OPEN, commit_offsets(), describe(), fetch_offsets(is_stable=True))),
    ("nothing open", (init(), commit_offsets(), describe())),
    ("the empty group", (init(), add_offsets(group=""), commit_offsets(group=""))),
    ("the empty group, not added", (init(), commit_offsets(group=""))),
    ("an unknown topic", (init(), add_offsets(), commit_offsets(place=NOWHERE))),
    ("a partition that is none", (init(), add_offsets(), commit_offsets(place=Place(BESIDE.topic, (0, 99, -1))))),
    ("an unknown topic, not added", (init(), commit_offsets(place=NOWHERE), commit_offsets(AHEAD, place=NOWHERE))),
    ("no partition", (init(), add_offsets(), commit_offsets(place=Place(BESIDE.topic, ())), describe())),
    ("metadata", (
        init(), add_offsets(), commit_offsets(metadata="x" * 4096), commit_offsets(metadata="x" * 4097),
        commit_offsets(metadata=None), end(COMMIT), settle(), fetch_offsets(is_stable=True),
    )),
    ("odd offsets", (
        init(), add_offsets(), commit_offsets(offset=-1), commit_offsets(offset=MAX_LONG), end(COMMIT), settle(),
        fetch_offsets(is_stable=False),
    )),
    ("committed", (
        init(), add_offsets(), commit_offsets(), fetch_offsets(is_stable=False), fetch_offsets(is_stable=True),
        end(COMMIT), settle("CompleteCommit"), fetch_offsets(is_stable=False), fetch_offsets(is_stable=True),
    )),
    ("aborted", (
        init(), add_offsets(), commit_offsets(), end(ABORT), settle("CompleteAbort"),
        fetch_offsets(is_stable=False), fetch_offsets(is_stable=True), commit_offsets(), describe(),
    )),
    ("wrong epochs", (
        init(), add_offsets(), commit_offsets(AHEAD), commit_offsets(BEHIND), commit_offsets(Exactly(-1, -1)),
        commit_offsets(), commit_offsets(AHEAD), commit_offsets(BEHIND), commit_offsets(), describe(),
    )),
    ("the producer of another id", (
        init(), add_offsets(), init(name=Q), commit_offsets(), commit_offsets(FIRST, name=Q), commit_offsets(STRANGER),
    )),
    ("by one that was fenced", (
        init(), add_offsets(), commit_offsets(), init(), settle(), init(), commit_offsets(FIRST), add_offsets(),
        commit_offsets(FIRST), commit_offsets(), commit_offsets(FIRST), fetch_offsets(is_stable=True),
    )),
    ("a second commit in another transaction", (
        init(), add_offsets(), commit_offsets(offset=5), end(COMMIT), settle(),
        commit_offsets(offset=6), add_offsets(), commit_offsets(offset=7), end(ABORT), settle(),
        fetch_offsets(is_stable=True),
    )),
    ("an unknown group with a generation", (init(), add_offsets(), commit_offsets(generation=3), describe())),
    ("an unknown group with a member", (init(), add_offsets(), commit_offsets(member="some"), describe())),
    ("an unknown group with an instance", (init(), add_offsets(), commit_offsets(instance="i"), describe())),
    ("an empty group with a member", (
        init(), add_offsets(), commit_offsets(), commit_offsets(member="some"), commit_offsets(generation=0),
        commit_offsets(generation=0, member="some"), commit_offsets(generation=-2),
    )),
    ("a group's member", (
        *JOINED, init(), add_offsets(), commit_offsets(generation=GENERATION, member=MEMBER), end(COMMIT), settle(),
        fetch_offsets(is_stable=True),
    )),
    ("a group's member in other generations", (
        *JOINED, init(), add_offsets(), commit_offsets(generation=0, member=MEMBER),
        commit_offsets(generation=Own("generation", "g", 1), member=MEMBER), commit_offsets(member=MEMBER),
        commit_offsets(generation=GENERATION), commit_offsets(generation=GENERATION, member="some"),
        commit_offsets(), commit_offsets(generation=GENERATION, member=MEMBER, instance="i"),
    )),
    ("a static member", (
        join(instance="i"), sync(instance="i"), init(), add_offsets(),
        commit_offsets(generation=GENERATION, member=MEMBER, instance="i"),
        commit_offsets(generation=GENERATION, member="some", instance="i"),
        commit_offsets(generation=GENERATION, member=MEMBER, instance="j"),
        commit_offsets(generation=-1, member="", instance="i"),
    )),
    ("a group that rebalances", (
        join(), join(member=MEMBER), init(), add_offsets(), commit_offsets(generation=GENERATION, member=MEMBER),
        commit_offsets(),
    )),
)  # fmt: skip

_PRODUCE: Final = _all(
    "Produce",
    ("without an id", (
        *OPEN, produce((HERE, batch()), name=None), produce((BESIDE, PLAIN), (HERE, batch()), name=None),
    )),
    ("with the empty id", (*OPEN, produce((HERE, batch()), name=""))),
    ("with an unknown id", (*OPEN, produce((HERE, batch()), name=NOBODY), *BOTH_ENDS)),
    ("with the id of another", (
        *OPEN, init(name=Q), write(), produce((HERE, batch(FIRST)), name=Q), produce((HERE, batch(FIRST, 1)), name=Q),
    )),
    ("by an unknown producer", (init(), write(STRANGER), add(HERE), write(STRANGER), *BOTH_ENDS)),
    ("without InitProducerId", (write(STRANGER), *BOTH_ENDS)),
    ("not added", (init(), write(), add(BESIDE), write(), *BOTH_ENDS)),
    ("not added beside added", (*OPEN, produce((HERE, batch()), (BESIDE, batch())), *BOTH_ENDS)),
    ("one partition unknown", (*OPEN, produce((HERE, batch()), (NOWHERE, batch())), *BOTH_ENDS)),
    ("the second batch, not added again", (
        *COMMITTED, write(sequence=1), add(HERE), write(sequence=1), write(sequence=2), *BOTH_ENDS,
    )),
    ("the epoch before", (init(), init(), add(HERE), write(FIRST), write(), write(FIRST), *BOTH_ENDS)),
    ("the next epoch", (*OPEN, write(AHEAD), write(), write(AHEAD), write(AHEAD, 1), *BOTH_ENDS)),
    ("no epoch", (*OPEN, write(BEHIND), write(Who(epoch=-2)), *BOTH_ENDS)),
    ("by one that was fenced", (
        *OPEN_WITH_DATA, init(), settle(), write(sequence=1), init(), add(HERE), write(FIRST, 1), write(), *BOTH_ENDS,
    )),
    ("after a timeout", (*TIMED_OUT, write(), write(AHEAD), *BOTH_ENDS)),
    ("a plain batch in an open transaction", (*OPEN_WITH_DATA, write(sequence=1, plain=True), *BOTH_ENDS)),
    ("a plain batch in an open transaction, without an id", (
        *OPEN_WITH_DATA, produce((HERE, batch(sequence=1, plain=True)), name=None), *BOTH_ENDS,
    )),
    ("a plain batch before a transaction", (init(), write(plain=True), add(HERE), write(sequence=1), *BOTH_ENDS)),
    ("a plain batch after a transaction", (*COMMITTED, write(sequence=1, plain=True), *BOTH_ENDS)),
    ("plain and transactional beside each other", (
        *OPEN, produce((HERE, batch()), (BESIDE, PLAIN)), produce((BESIDE, PLAIN), (HERE, batch(sequence=1))),
        *BOTH_ENDS,
    )),
    ("a batch of no producer in an open transaction", (*OPEN_WITH_DATA, produce((HERE, PLAIN)), *BOTH_ENDS)),
    ("two producers", (
        *OPEN, init(name=Q), add(BESIDE, name=Q), produce((HERE, batch(FIRST)), (BESIDE, batch())), *BOTH_ENDS,
    )),
    ("two epochs", (
        *OPEN, produce((HERE, batch()), (BESIDE, batch(AHEAD))), *BOTH_ENDS,
    )),
    ("a control batch", (*OPEN, write(control=True), write(control=True, plain=True), *BOTH_ENDS)),
    ("a control batch that was not added", (init(), write(control=True), *BOTH_ENDS)),
    ("gaps", (*OPEN, write(sequence=5), write(sequence=5), write(sequence=7), write(sequence=6), *BOTH_ENDS)),
    ("a higher sequence after a refusal", (
        init(), write(sequence=5), add(HERE), write(sequence=7), write(sequence=5), write(sequence=6), *BOTH_ENDS,
    )),
    ("a lower sequence after a refusal", (
        init(), write(sequence=5), add(HERE), write(sequence=3), write(sequence=4), *BOTH_ENDS,
    )),
    ("a batch again", (*OPEN_WITH_DATA, write(), write(sequence=1), write(), *BOTH_ENDS)),
    ("a batch again in the next transaction", (*COMMITTED, add(HERE), write(), write(sequence=1), *BOTH_ENDS)),
    ("a batch again after the end", (*COMMITTED, write(), write(sequence=1), *BOTH_ENDS)),
    ("a new epoch that does not begin at 0", (
        *COMMITTED, init(), add(HERE), write(sequence=1), write(sequence=0), write(sequence=1), *BOTH_ENDS,
    )),
    ("damaged", (*OPEN, write(damage="crc"), write(damage="magic 5"), write(damage="no records"), *BOTH_ENDS)),
    ("without acks", (*OPEN, produce((HERE, batch()), acks=0), log_end(0), produce((HERE, batch(AHEAD)), acks=0),
                      produce((BESIDE, batch()), acks=0), *BOTH_ENDS)),
    ("with one ack", (*OPEN, produce((HERE, batch()), acks=1), produce((BESIDE, batch()), acks=1), *BOTH_ENDS)),
    ("with two acks", (*OPEN, produce((HERE, batch()), acks=2), produce((BESIDE, batch()), acks=2), *BOTH_ENDS)),
    ("to internal topics", (
        *OPEN, write(place=OFFSETS), write(place=TRANSACTIONS), add(OFFSETS), write(place=OFFSETS),
    )),
    ("aborted", (*OPEN, write(size=3), write(sequence=3), end(ABORT), settle(), *BOTH_ENDS)),
    ("committed after another aborted", (
        *OPEN_WITH_DATA, init(name=Q), add(HERE, name=Q), produce((HERE, batch()), name=Q), *BOTH_ENDS,
        end(ABORT, FIRST), settle(), *BOTH_ENDS, end(COMMIT, name=Q), settle(name=Q), *BOTH_ENDS,
    )),
)  # fmt: skip

_MARKERS: Final = _all(
    "WriteTxnMarkers",
    ("nothing", (mark(),)),
    ("no partition", (init(), mark(marker(COMMIT, SAME, Place(BESIDE.topic, ()))))),
    ("no topic", (init(), mark({**marker(COMMIT), "topics": []}))),
    ("an unknown topic", (init(), mark(marker(COMMIT, SAME, NOWHERE)), mark(marker(ABORT, SAME, NOWHERE, HERE)))),
    ("a partition that is none", (init(), mark(marker(COMMIT, SAME, Place(BESIDE.topic, (99, -1)))))),
    ("an unknown producer", (mark(marker(COMMIT, STRANGER)), mark(marker(ABORT, STRANGER)), *BOTH_ENDS)),
    ("negative producers", (mark(marker(COMMIT, Exactly(-1, -1))), mark(marker(ABORT, Exactly(-7, 0))), *BOTH_ENDS)),
    ("a negative epoch", (mark(marker(COMMIT, Exactly(7, -1))), mark(marker(ABORT, Exactly(7, -3))), *BOTH_ENDS)),
    ("the end that its coordinator does not know", (
        *OPEN_WITH_DATA, mark(marker(ABORT)), describe(), *BOTH_ENDS, write(sequence=1), end(COMMIT), settle(),
        *BOTH_ENDS,
    )),
    ("old epochs", (
        init(), init(), add(HERE), write(), mark(marker(ABORT, FIRST)), *BOTH_ENDS, mark(marker(ABORT)),
        mark(marker(ABORT, FIRST)), mark(marker(ABORT)), *BOTH_ENDS,
    )),
    ("the next epoch", (*OPEN_WITH_DATA, mark(marker(ABORT, AHEAD)), write(sequence=1), write(AHEAD), *BOTH_ENDS)),
    ("coordinator epochs", (
        *OPEN_WITH_DATA, mark(marker(ABORT, coordinator_epoch=5)), mark(marker(ABORT, coordinator_epoch=4)),
        mark(marker(ABORT, coordinator_epoch=-1)), mark(marker(COMMIT, coordinator_epoch=5)), *BOTH_ENDS,
    )),
    ("a negative coordinator epoch", (*OPEN_WITH_DATA, mark(marker(ABORT, coordinator_epoch=-1)), *BOTH_ENDS)),
    ("several", (
        *OPEN_WITH_DATA, init(name=Q), add(HERE, BESIDE, name=Q), produce((HERE, batch()), name=Q),
        mark(marker(ABORT, STRANGER, NOWHERE), marker(ABORT, FIRST), marker(COMMIT, SECOND, HERE, BESIDE)),
        *BOTH_ENDS,
    )),
    ("one producer twice", (*OPEN_WITH_DATA, mark(marker(ABORT), marker(COMMIT)), *BOTH_ENDS)),
    ("to internal topics", (mark(marker(COMMIT, STRANGER, OFFSETS)), mark(marker(ABORT, STRANGER, OFFSETS)))),
    ("offsets that are committed by hand", (
        init(), add_offsets(), commit_offsets(), mark(marker(COMMIT, SAME, OFFSETS)), fetch_offsets(is_stable=True),
        commit_offsets(offset=9), mark(marker(ABORT, SAME, OFFSETS)), fetch_offsets(is_stable=True),
    )),
    ("a plain producer", (init(), write(plain=True), mark(marker(ABORT)), write(sequence=1, plain=True), *BOTH_ENDS)),
)  # fmt: skip

_LOOKING: Final = [
    *_all(
        "DescribeTransactions",
        ("nothing", (Act("DescribeTransactions", {"transactionalIds": []}),)),
        ("the empty id", (describe(""),)),
        ("unknown ids", (init(), describe(P, Q, NOBODY, ""), describe(P, P))),
        ("partitions of topics", (
            create(partitions=2), init(), add(MINE, OTHER, HERE, BESIDE), add_offsets(), describe(),
        )),
    ),
    *_all(
        "ListTransactions",
        ("states", (
            *OPEN, init(name=Q), list_all(), list_all(["Ongoing"]), list_all(["Empty", "Ongoing"]),
            list_all(["CompleteCommit"]),
        )),
        ("states that are none", (
            *OPEN, list_all(["ongoing"]), list_all(["Ongoing", "none", "", "none"]), list_all(["Dead"]),
            list_all(["PrepareEpochFence", "PrepareCommit"]),
        )),
        ("producers", (
            *OPEN, init(name=Q), list_all(producers=[FIRST]), list_all(producers=[SECOND, STRANGER]),
            list_all(producers=[STRANGER]), list_all(["Empty"], [FIRST]),
        )),
        ("durations", (*OPEN, init(name=Q), list_all(duration_ms=LONGEST_MS),
                       list_all(duration_ms=-5), list_all(duration_ms=MAX_LONG))),
    ),
    *_all(
        "FindCoordinator",
        ("of transactional ids", (find(P), find(""), find("é \n"), find(P, kind=2), find(P, kind=-1))),
    ),
]  # fmt: skip

SCENARIOS: Final = (
    *(*_INIT, *_ADD, *_VERIFY, *_ADD_OFFSETS, *_END, *_COMMIT_OFFSETS, *_PRODUCE, *_MARKERS, *_LOOKING),
)
