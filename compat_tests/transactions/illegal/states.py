"""Every act in every state of a transactional id."""

from collections.abc import Iterator, Mapping
from typing import Final

from compat_tests.differential.generated.controllers import ME
from compat_tests.transactions.illegal.acts import (
    ABORT,
    AHEAD,
    BEHIND,
    BESIDE,
    COMMIT,
    HERE,
    LONGEST_MS,
    MINE,
    NO_LEADER,
    NOBODY,
    SAME,
    STRANGER,
    Act,
    Who,
    add,
    add_offsets,
    batch,
    commit_offsets,
    create,
    describe,
    end,
    entry,
    init,
    init_to_the_last_epoch,
    lead,
    list_all,
    mark,
    marker,
    of_brokers,
    produce,
    producers,
    settle,
    write,
)
from compat_tests.transactions.illegal.stage import Scenario

Acts = tuple[Act, ...]

STATES: Final[Mapping[str, Acts]] = {
    "an unknown id": (),
    "Empty": (init(),),
    "Ongoing": (init(), add(HERE)),
    "Ongoing with data": (init(), add(HERE), write()),
    "CompleteCommit": (init(), add(HERE), write(), end(COMMIT), settle("CompleteCommit")),
    "CompleteAbort": (init(), add(HERE), write(), end(ABORT), settle("CompleteAbort")),
    "after a fence": (init(), add(HERE), write(), init(), settle("CompleteAbort")),
}
_WITH_DATA: Final = frozenset({"Ongoing with data", "CompleteCommit", "CompleteAbort", "after a fence"})
# The markers of a transaction wait as long as the coordinator knows no leader of its partition.
HELD: Final[Mapping[str, Acts]] = {
    f"Prepare{result}": (create(), init(), add(MINE), lead(NO_LEADER), end(is_commit), describe())
    for result, is_commit in (("Commit", COMMIT), ("Abort", ABORT))
}
_WHO: Final = {"": SAME, " of the epoch before": BEHIND, " of the next epoch": AHEAD, " of a stranger": STRANGER}


def acts_of(api: str, sequence: int) -> Mapping[str, Acts]:
    """Return all acts of an API by their names. `sequence` is the producer's next sequence number."""
    if api in ("Produce", "WriteTxnMarkers"):
        return _of_partitions(api, sequence)
    acts: dict[str, Acts] = {}
    if api == "InitProducerId":
        acts = {f"{api} with the id and epoch{name}": (init(who),) for name, who in _WHO.items()}
        acts |= {api: (init(),), f"{api} for too long": (init(timeout_ms=LONGEST_MS + 1),)}
    elif api == "AddPartitionsToTxn":
        for name, who in _WHO.items():
            acts[api + name] = (add(HERE, who=who),)
            acts[f"{api} with another partition{name}"] = (add(BESIDE, who=who),)
            acts[f"a verification{name}"] = (of_brokers(entry(HERE, BESIDE, who=who)),)
            acts[f"{api} by a broker{name}"] = (of_brokers(entry(HERE, BESIDE, who=who, verify=False)),)
    elif api == "AddOffsetsToTxn":
        acts = {api + name: (add_offsets(who),) for name, who in _WHO.items()}
    elif api == "EndTxn":
        for result, is_commit in (("commit", COMMIT), ("abort", ABORT)):
            acts |= {f"{result}{name}": (end(is_commit, who),) for name, who in _WHO.items()}
    elif api == "TxnOffsetCommit":
        acts = {f"{api} without AddOffsetsToTxn{name}": (commit_offsets(who),) for name, who in _WHO.items()}
        acts |= {f"{api}{name}": (add_offsets(), commit_offsets(who)) for name, who in _WHO.items()}
    elif api == "DescribeTransactions":
        acts = {api: (describe(),)}
    elif api == "ListTransactions":
        acts = {api: (list_all(),), f"{api} by its producer": (list_all(producers=[SAME]),)}
    assert acts, api
    return acts


def _of_partitions(api: str, sequence: int) -> Mapping[str, Acts]:
    """Return the acts that go to the leader of a partition."""
    acts: dict[str, Acts] = {}
    if api == "Produce":
        acts = {api + name: (write(who, sequence),) for name, who in _WHO.items()}
        acts |= {
            f"{api} to a partition that was not added": (write(place=BESIDE),),
            f"{api} with a gap": (write(SAME, sequence + 5),),
            f"{api} without an id": (produce((HERE, batch(SAME, sequence)), name=None),),
            f"{api} with another id": (produce((HERE, batch(SAME, sequence)), name=NOBODY),),
            f"{api} of a plain batch": (write(SAME, sequence, plain=True),),
            f"{api} of a control batch": (write(SAME, sequence, control=True),),
            f"{api} of a batch that was appended": (write(SAME, 0),),
        }
    else:
        for result, is_commit in (("commit", COMMIT), ("abort", ABORT)):
            acts |= {f"a marker to {result}{name}": (mark(marker(is_commit, who)),) for name, who in _WHO.items()}
        acts["a marker of an old coordinator"] = (mark(marker(COMMIT, coordinator_epoch=-1)),)
    return acts


APIS: Final = (
    *("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "Produce"),
    *("WriteTxnMarkers", "DescribeTransactions", "ListTransactions"),
)


def scenarios(state: str, api: str) -> Iterator[Scenario]:
    """Yield a scenario for each act of an API in a state; while markers wait, one for all: they change nothing."""
    sequence = 1 if state in _WITH_DATA else 0
    if state in HELD:
        acts = [each for acts in acts_of(api, sequence).values() for each in acts]
        after = describe(), lead(ME), settle(), producers(MINE)
        yield Scenario(f"{state}: {api}", api, (*HELD[state], *acts, *after))
    else:
        for name, wanted in acts_of(api, sequence).items():
            yield Scenario(f"{state}: {name}", api, (*STATES[state], *wanted, settle(), producers()))


TO_LAST_EPOCH: Final = (init(), init_to_the_last_epoch(), describe())
EPOCHS: Final = (
    Scenario("the last epoch, InitProducerId", "InitProducerId", (*TO_LAST_EPOCH, init(), init(), describe())),
    Scenario(
        "the last epoch, InitProducerId with it, repeated",
        "InitProducerId",
        (*TO_LAST_EPOCH, init(SAME), init(Who(1)), init(Who(1)), add(HERE, who=Who(1)), init(), describe()),
    ),
    Scenario(
        "the last epoch, InitProducerId with the one before, whose answer was lost",
        "InitProducerId",
        (*TO_LAST_EPOCH, init(BEHIND), describe()),
    ),
    Scenario(
        "the last epoch, a transaction that is fenced",
        "InitProducerId",
        (
            *(*TO_LAST_EPOCH, add(HERE), write(), init(), settle("CompleteAbort"), producers(), init(SAME)),
            *(end(COMMIT), init(), describe(), add(HERE), write(), end(COMMIT), settle(), producers()),
        ),
    ),
    Scenario(
        "the last epoch, a transaction that commits",
        "InitProducerId",
        (
            *TO_LAST_EPOCH,
            add(HERE),
            write(),
            end(COMMIT),
            settle("CompleteCommit"),
            end(COMMIT),
            init(SAME),
            describe(),
        ),
    ),
)
"""At the last epochs, which take many requests to reach. These run in one version."""
