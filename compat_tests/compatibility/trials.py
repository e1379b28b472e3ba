"""A trial: one feature with one client against one broker, and its outcome."""

import contextlib
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from compat_tests.compatibility.drivers import Driver, Lacks, Refused
from compat_tests.compatibility.observing import Observer
from compat_tests.compatibility.settings import Place

PATIENCE_S = 20.0
PAUSE_S = 0.05
PASSED, FAILED, LACKS = "passed", "failed", "lacks"

LONGEST = 300
# Parts of texts that differ in each run.
CHANGING = {r"127\.0\.0\.1:\d+": "HOST:PORT", r"trial-\d+": "TRIAL", r" \(after \d+ms[^)]*\)": ""}

_numbers = itertools.count(1)
_number = threading.Lock()


class Different(Exception):  # noqa: N818 - a result, not an error
    """A client's result is not the expected one."""


class Outcome(NamedTuple):
    """Whether a trial passed, and the reason if not."""

    kind: str
    why: str = ""


class Trial:
    """The environment of a scenario: a client, a broker, and unique names."""

    def __init__(self, driver: Driver, place: Place, observer: Observer, version: str = "") -> None:
        with _number:
            self.name = f"trial-{next(_numbers)}"
        self.topic = self.name
        self.group = f"{self.name}-group"
        self._place = place
        self._connection: dict[str, Any] = {"bootstrap": place.bootstrap}
        self.observer = observer
        self.bootstrap = place.bootstrap
        self.version = version
        self.patience_s = PATIENCE_S
        self._checks: list[Callable[[], None]] = []
        self._driver = driver

    def ask(self, call: str, **arguments: Any) -> Any:
        """Return the client's answer to a call."""
        return self._driver.ask(call, connection=self._connection, **arguments)

    def refusal(self, call: str, **arguments: Any) -> Refused:
        """Return the client's error for a call. Different if the call succeeds."""
        try:
            found = self.ask(call, **arguments)
        except Refused as refused:
            return refused
        raise Different(f"{call} was not refused: {found}")

    def connect(self, name: str, **more: Any) -> None:
        """Use a protocol or SASL mechanism for all later calls."""
        self._connection = {**self._place.connections[name], **more}

    def create_topic(self, partitions: int = 1, **configs: str) -> None:
        """Create the trial's topic by the observer, because not every client can."""
        named = {key.replace("_", "."): value for key, value in configs.items()}
        self.observer.create_topic(self.topic, partitions, named)

    def fill(self, *values: str, partition: int = 0, **more: Any) -> None:
        """Produce values with the client."""
        records = [{"value": each, "partition": partition} for each in values]
        self.ask("produce", topic=self.topic, records=records, **more)

    def partitions(self) -> int:
        """Return the partition count of the trial's topic."""
        return self.observer.partitions(self.topic)

    def configs(self, *keys: str) -> dict[str, str]:
        """Return configs of the trial's topic."""
        return self.observer.configs(self.topic, *keys)

    def earliest(self) -> int:
        """Return the first offset of the trial's topic."""
        return self.observer.earliest(self.topic)

    def latest(self) -> int:
        """Return the offset after the last record of the trial's topic."""
        return self.observer.latest(self.topic)

    def write_at(self, values: Mapping[int, str], key: str | None = None) -> None:
        """Write values with timestamps by the observer, because not every client can."""
        self.observer.write_at(self.topic, values, key)

    def groups(self) -> list[str]:
        """Return the names of all groups."""
        return self.observer.groups()

    def group_type(self) -> str:
        """Return the protocol of the trial's group."""
        return self.observer.group_type(self.group)

    def commit(self, offset: int) -> None:
        """Commit an offset of the trial's group by the observer, because not every client can."""
        self.observer.commit(self.group, self.topic, offset)

    def committed(self) -> int | None:
        """Return the committed offset of the trial's group."""
        return self.observer.committed(self.group, self.topic)

    def add_scram_user(self, user: str, mechanism: str, password: str) -> None:
        """Create a user's SCRAM credential."""
        self.observer.add_scram_user(user, mechanism, password)

    def deny_writing(self, user: str) -> None:
        """Create an ACL that denies a user's writes to the trial's topic."""
        self.observer.deny_writing(user, self.topic)

    @contextlib.contextmanager
    def member(self, **given: Any) -> Iterator["Member"]:
        """Join the trial's group with the client, and leave it at the end of the block."""
        made = Member(self, f"{self.name}-{next(_numbers)}")
        self.ask("join", member=made.name, group=self.group, topic=self.topic, **given)
        try:
            yield made
        finally:
            self.ask("leave", member=made.name)

    @contextlib.contextmanager
    def checking(self, program: AbstractContextManager[Callable[[], None]]) -> Iterator[None]:
        """Run a program during the block; `wait_until` fails there when the program has ended."""
        with program as check:
            self._checks.append(check)
            try:
                yield
            finally:
                self._checks.remove(check)

    def wait_until(self, look: Callable[[], Any], wanted: Any) -> None:
        """Call a function until it returns the wanted value."""
        deadline = time.monotonic() + self.patience_s
        while (found := look()) != wanted:
            for check in self._checks:
                check()
            if time.monotonic() > deadline:
                raise Different(f"{shortened(found)} instead of {shortened(wanted)}")
            time.sleep(PAUSE_S)


class Member:
    """A member of a trial's group."""

    def __init__(self, trial: Trial, name: str) -> None:
        self.name = name
        self._trial = trial

    def _state(self) -> Any:
        found = self._trial.ask("state", member=self.name)
        if found["failure"] is not None:
            raise Different(f"a member of the group failed: {found['failure']}")
        return found

    def assigned(self) -> list[int]:
        """Return the member's partitions."""
        return sorted(partition for _, partition in self._state()["assigned"])

    def read(self) -> list[list[int]]:
        """Return partition and offset of each record read by the member."""
        return [[partition, offset] for _, partition, offset in self._state()["read"]]

    def changes(self) -> int:
        """Return how often the member's assignment changed."""
        return int(self._state()["changes"])

    def tell(self, what: str, **arguments: Any) -> None:
        """Send a command to the member."""
        self._trial.ask("tell", member=self.name, what=what, **arguments)


def expect(found: Any, wanted: Any) -> None:
    """Raise Different unless the values are equal."""
    if found != wanted:
        raise Different(f"{shortened(found)} instead of {shortened(wanted)}")


def shortened(value: Any) -> str:
    """Return a value as one line of text that is the same in every run."""
    text = " ".join(str(value).split())
    for pattern, instead in CHANGING.items():
        text = re.sub(pattern, instead, text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def outcome(scenario: Callable[[Trial], None], trial: Trial) -> Outcome:
    """Run a scenario, and return its outcome."""
    try:
        scenario(trial)
    except Lacks as lacking:
        return Outcome(LACKS, str(lacking))
    except Refused as refused:
        code = "" if refused.code is None else f" (error code {refused.code})"
        return Outcome(FAILED, f"{shortened(refused)}{code}")
    except Different as different:
        return Outcome(FAILED, shortened(different))
    except Exception as error:
        return Outcome(FAILED, f"{type(error).__name__}: {shortened(error)}")
    return Outcome(PASSED)
