"""Clients at work during faults of brokers, with their acknowledgements."""

from collections.abc import Callable, Sequence
from typing import Self

from compat_tests.support.writing import Writer, read_all
from tests.system.survival.committing import GROUPS, Committed, Work


class Records:
    """Idempotent producers with acks=all, one for each topic of one partition."""

    def __init__(self, bootstrap: str, topics: Sequence[str], output: Callable[[], str]) -> None:
        """Takes the output of the brokers, too, for the message of a failure."""
        self.bootstrap = bootstrap
        self.writers = [Writer(bootstrap, topic) for topic in topics]
        self.output = output

    def __enter__(self) -> Self:
        for writer in self.writers:
            writer.start()
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        for writer in self.writers:
            writer.stopping.set()
        for writer in self.writers:
            # A failed test does not wait for missing acknowledgements.
            writer.join(120 if kind is None else 0)

    def wait_until_at_work(self) -> None:
        """Wait until each producer has new acknowledgements."""
        for writer in self.writers:
            writer.wait_for_acknowledgement()

    def remember(self) -> None:
        """Do nothing, because the producers remember all acknowledgements."""

    def check_now(self) -> None:
        """Wait until each producer goes on."""
        self.wait_until_at_work()

    def check(self) -> str:
        """Check all records."""
        for writer in self.writers:
            check_records(writer, self.bootstrap, self.output)
        count = sum(writer.sent for writer in self.writers)
        silence = max(writer.longest_silence for writer in self.writers)
        return f"{count} records acknowledged, none of a topic for {silence:.1f} s at most"


def check_records(writer: Writer, bootstrap: str, output: Callable[[], str]) -> None:
    """Check that all records of a writer were acknowledged, and are at their offsets once."""
    assert not writer.failures
    assert writer.unsent == 0, output()[-4000:]
    found = read_all(bootstrap, writer.topic)
    assert len(found) == len(set(found.values()))
    assert len(writer.acknowledged) == writer.sent
    assert {offset: found.get(offset) for offset in writer.acknowledged.values()} == {
        offset: value for value, offset in writer.acknowledged.items()
    }


class Commits:
    """Consumers in groups that commit the records they read."""

    def __init__(self, bootstrap: str, replicas: int) -> None:
        self.work = Work(bootstrap, replicas)
        self.members: set[str] = set()
        self.acknowledged: Committed = {}

    def __enter__(self) -> Self:
        self.work.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self.work.__exit__(*raised)

    def wait_until_at_work(self) -> None:
        """Wait until the groups are stable, with their first members, and commit."""
        found = self.work.wait_until_stable()
        self.members = self.members or found
        assert found == self.members
        self.work.wait_for_commits()

    def remember(self) -> None:
        """Remember the committed offsets."""
        self.acknowledged = self.work.acknowledged()

    def check_now(self) -> None:
        """Check that no group has lost a member, and no committed offset went back."""
        assert self.work.wait_until_stable() == self.members
        assert self.work.behind(self.acknowledged) == {}
        self.work.wait_for_commits()

    def check(self) -> str:
        """Check that no commit was lost, and no committed record read again."""
        self.work.check()
        return f"{self.work.commits} commits acknowledged in {len(GROUPS)} groups"
