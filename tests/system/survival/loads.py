"""Clients at work while brokers break, and what they were told."""

from collections.abc import Callable, Sequence
from typing import Self

from compat_tests.support.writing import Writer, read_all
from tests.system.survival.committing import GROUPS, Committed, Work


class Records:
    """Idempotent producers with acks=all, one to each topic of one partition."""

    def __init__(self, bootstrap: str, topics: Sequence[str], output: Callable[[], str]) -> None:
        """Take what the brokers have said, too, for whoever looks into a failure."""
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
            # A test that has failed does not wait for what nobody acknowledges.
            writer.join(120 if kind is None else 0)

    def wait_until_at_work(self) -> None:
        """A fault proves something only if the producers were at work."""
        for writer in self.writers:
            writer.wait_for_acknowledgement()

    def remember(self) -> None:
        """Nothing: they remember all."""

    def check_now(self) -> None:
        """Each goes on."""
        self.wait_until_at_work()

    def check(self) -> str:
        """Read all of it."""
        for writer in self.writers:
            check_records(writer, self.bootstrap, self.output)
        count = sum(writer.sent for writer in self.writers)
        silence = max(writer.longest_silence for writer in self.writers)
        return f"{count} records acknowledged, none of a topic for {silence:.1f} s at most"


def check_records(writer: Writer, bootstrap: str, output: Callable[[], str]) -> None:
    """All that a writer has sent was acknowledged, and is where it was told, once."""
    assert not writer.failures
    assert writer.unsent == 0, output()[-4000:]
    found = read_all(bootstrap, writer.topic)
    assert len(found) == len(set(found.values()))
    assert len(writer.acknowledged) == writer.sent
    assert {offset: found.get(offset) for offset in writer.acknowledged.values()} == {
        offset: value for value, offset in writer.acknowledged.items()
    }


class Commits:
    """Consumers in groups, which commit what they read."""

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
        """The groups are stable, with the members that they had at first, and commit."""
        found = self.work.wait_until_stable()
        self.members = self.members or found
        assert found == self.members
        self.work.wait_for_commits()

    def remember(self) -> None:
        """Keep what is committed."""
        self.acknowledged = self.work.acknowledged()

    def check_now(self) -> None:
        """No group has lost a member, and nothing that was committed has gone back."""
        assert self.work.wait_until_stable() == self.members
        assert self.work.behind(self.acknowledged) == {}
        self.work.wait_for_commits()

    def check(self) -> str:
        """Nothing was lost, and nobody read again what was committed."""
        self.work.check()
        return f"{self.work.commits} commits acknowledged in {len(GROUPS)} groups"
