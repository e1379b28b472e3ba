"""Rows about reading without a group: its start and its end."""

from typing import Any

from compat_tests.compatibility.features.declaring import Feature
from compat_tests.compatibility.features.producing import NOON, values
from compat_tests.compatibility.trials import Trial, expect


def filled(trial: Trial) -> None:
    """Create the topic with five records."""
    trial.create_topic()
    trial.fill(*"01234")


def filled_by_time(trial: Trial) -> None:
    """Create the topic with five records, a second apart. The observer writes them, because not every client can."""
    trial.create_topic()
    trial.write_at({NOON + 1000 * number: str(number) for number in range(5)})


def read_from(start: Any, wanted: list[str]) -> Any:
    """Return the scenario of reading from `start`."""

    def scenario(trial: Trial) -> None:
        (filled_by_time if "time" in start else filled)(trial)
        expect(values(trial, len(wanted), start=start), wanted)

    return scenario


def offsets(trial: Trial) -> None:
    filled(trial)
    expect([trial.ask("offsets", topic=trial.topic, at=at) for at in ("earliest", "latest")], [0, 5])


def offset_by_time(trial: Trial) -> None:
    filled_by_time(trial)
    times = (NOON - 1, NOON + 1500, NOON + 4000)
    expect([trial.ask("offsets", topic=trial.topic, at=at) for at in times], [0, 2, 4])


def many_partitions(trial: Trial) -> None:
    trial.create_topic(3)
    for partition in range(3):
        trial.fill(f"in {partition}", partition=partition)
    found = [values(trial, 1, partition=partition) for partition in range(3)]
    expect(found, [["in 0"], ["in 1"], ["in 2"]])


def read_committed(trial: Trial) -> None:
    filled(trial)
    expect(values(trial, 5, isolation="read_committed"), ["0", "1", "2", "3", "4"])


ROWS = [
    Feature("read from the beginning", read_from("beginning", ["0", "1", "2", "3", "4"])),
    Feature("read from an offset", read_from({"offset": 3}, ["3", "4"])),
    Feature("read from a time", read_from({"time": NOON + 1500}, ["2", "3", "4"])),
    Feature("partitions chosen by the producer and the consumer", many_partitions),
    Feature("offsets: earliest, latest", offsets),
    Feature("offsets: by time", offset_by_time),
    Feature("read_committed without transactions", read_committed),
]
