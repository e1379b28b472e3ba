"""Rows about transactions."""

from typing import Any

from compat_tests.compatibility.features.declaring import Feature
from compat_tests.compatibility.features.producing import values
from compat_tests.compatibility.trials import Trial, expect


def write(trial: Trial, end: str, *texts: str, **more: Any) -> None:
    trial.fill(*texts, transaction={"id": trial.name, "end": end, **more})


def committed(trial: Trial) -> None:
    trial.create_topic()
    write(trial, "commit", "a", "b")
    expect(values(trial, 2, isolation="read_committed"), ["a", "b"])


def aborted(trial: Trial) -> None:
    trial.create_topic()
    write(trial, "abort", "a", "b")
    write(trial, "commit", "c")
    expect(values(trial, 1, isolation="read_committed"), ["c"])
    expect(values(trial, 3), ["a", "b", "c"])


def with_offsets(trial: Trial) -> None:
    trial.create_topic()
    trial.fill(*"abc")
    write(trial, "commit", "d", offsets={"group": trial.group, "offset": 3})
    trial.wait_until(trial.committed, 3)


ROWS = [
    Feature("a transaction is committed", committed),
    Feature("a transaction is aborted; read_committed skips it", aborted),
    Feature("offsets are committed in a transaction", with_offsets),
]
