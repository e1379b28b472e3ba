"""Members of groups in drivers with polled consumers: each has a thread, which also runs its commands."""

import queue
import threading
from collections.abc import Callable
from typing import Any

Position = tuple[str, int]


class Member(threading.Thread):
    """A consumer in a group; `open` returns a function that polls it once, and its commands."""

    def __init__(self, run: Callable[["Member"], None]) -> None:
        super().__init__(daemon=True)
        self._run = run
        self._commands: queue.Queue[tuple[str, dict[str, Any], queue.Queue[Any]]] = queue.Queue()
        self.leaving = threading.Event()
        self.assigned: set[Position] = set()
        self.read: list[tuple[str, int, int]] = []
        self.changes = 0
        self.failure: str | None = None
        self.start()

    def run(self) -> None:
        try:
            self._run(self)
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    def hold(self, partitions: set[Position]) -> None:
        """Note the assigned partitions."""
        if partitions != self.assigned:
            self.changes += 1
            self.assigned = partitions

    def obey(self, actions: dict[str, Callable[..., Any]]) -> None:
        """Run the commands that came since the last call."""
        while not self._commands.empty():
            what, arguments, done = self._commands.get()
            try:
                actions[what](**arguments)
                done.put(None)
            except Exception as error:
                done.put(error)

    def tell(self, what: str, arguments: dict[str, Any]) -> None:
        """Run a command in the thread, and wait for its end."""
        done: queue.Queue[Any] = queue.Queue()
        self._commands.put((what, arguments, done))
        error = done.get(timeout=30)
        if error is not None:
            raise error

    def leave(self) -> None:
        """Close the consumer."""
        self.leaving.set()
        self.join(30)

    def state(self) -> dict[str, Any]:
        """Return the answer to the call `state`."""
        held = sorted(self.assigned)
        return {"assigned": held, "read": list(self.read), "changes": self.changes, "failure": self.failure}


def member_calls(join: Callable[..., Member]) -> dict[str, Callable[..., Any]]:
    """Return the calls about members; `join` is the client's own part."""
    members: dict[str, Member] = {}

    def joined(member: str, **given: Any) -> None:
        members[member] = join(**given)

    def leave(member: str, connection: Any) -> None:
        members.pop(member).leave()

    return {
        "join": joined,
        "state": lambda member, connection: members[member].state(),
        "tell": lambda member, connection, what, **arguments: members[member].tell(what, arguments),
        "leave": leave,
    }
