"""One session with ZooKeeper: responses and events in the socket's order, and watches that outlive a connection.

Owns the watches, and the number of the connection that a request belongs to. Must not know tasks: everything goes to
the loop by `post`. Counterpart: ClientCnxn of ZooKeeper's Java client. This session promises what kazoo does not:

- Responses and events keep their order, because the connection thread posts both.
- Watches are set again with SetWatches before any other request of a new connection. SetWatches names the last
  transaction that was seen, so that a missed change fires then.
- A session that expires ends, because a request of one session must not reach another.
- A request belongs to one connection. A request that comes late is not sent over the next connection, where it would
  overtake lost requests that are sent again.
"""

import ssl
import threading
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from kazoo.exceptions import EXCEPTIONS, AuthFailedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.serialization import (
    CheckVersion,
    Create2,
    Delete,
    Exists,
    GetChildren,
    MultiHeader,
    SetData,
    Transaction,
    int_struct,
    long_struct,
    multiheader_struct,
    write_string,
)
from kazoo.protocol.states import EventType, KeeperState

from ottla.zk.kazoo_inside import HookedClient

# As many bytes of paths as the Java client puts into one SetWatches; a server takes a mebibyte.
_SET_WATCHES_BYTES: Final = 128 * 1024
_STAT_BYTES: Final = 68

Post = Callable[..., None]
Done = Callable[[Any], None]


class Multi(namedtuple("Multi", "operations")):
    """A transaction whose creates return a stat each; creates of kazoo's own transactions do not."""

    type = Transaction.type

    def serialize(self) -> bytes:
        """Encode the operations."""
        parts = [MultiHeader(each.type, False, -1).serialize() + each.serialize() for each in self.operations]
        return b"".join([*parts, multiheader_struct.pack(-1, True, -1)])

    @staticmethod
    def deserialize(buffer: bytes, offset: int) -> list[Any]:
        """Return each operation's result: path and stat, stat, True, or an exception."""
        results: list[Any] = []
        header, offset = MultiHeader.deserialize(buffer, offset)
        while not header.done:
            if header.type == Create2.type:
                result = path, _ = Create2.deserialize(buffer, offset)
                offset += int_struct.size + len(path.encode()) + _STAT_BYTES
            elif header.type == SetData.type:
                result = SetData.deserialize(buffer, offset)
                offset += _STAT_BYTES
            elif header.type in (Delete.type, CheckVersion.type):
                result = True
            else:
                code = int_struct.unpack_from(buffer, offset)[0]
                result = EXCEPTIONS[code](f"error {code}")
                offset += int_struct.size
            results.append(result)
            header, offset = MultiHeader.deserialize(buffer, offset)
        return results


class SetWatches(namedtuple("SetWatches", "zxid data exist child")):
    """A request that sets watches again; a watch that missed a change since transaction `zxid` fires."""

    type = 101

    def serialize(self) -> bytes:
        """Encode the paths."""
        parts = [long_struct.pack(self.zxid)]
        for paths in (self.data, self.exist, self.child):
            parts.append(int_struct.pack(len(paths)))
            parts += [write_string(path) for path in paths]
        return b"".join(parts)

    @staticmethod
    def deserialize(buffer: bytes, offset: int) -> bool:
        """Return True, because the response is empty."""
        return True


class Answer:
    """kazoo's result of a request, posted to the loop; kazoo may set it twice, and the first counts."""

    __slots__ = ("_done", "_post", "_taken")

    def __init__(self, post: Post, done: Done, taken: Callable[[Any], None] | None = None) -> None:
        self._post = post
        self._done = done
        self._taken = taken

    def set(self, response: Any = None) -> None:
        """Post the response."""
        if self._taken is not None:
            self._taken(response)
        self._post(self._done, response)

    def set_exception(self, error: Exception) -> None:
        """Post the error."""
        self._post(self._done, error)


class Client:
    """One session.

    `on_state(state, connection, session_id)` is posted for each state of kazoo; `connection` is None unless connected.
    `on_fired(kind, path)` is posted for each watch that fires, with kazoo's type of the event.
    """

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_ms: int,
        credentials: tuple[str, str] | None,
        tls: ssl.SSLContext | None,
        post: Post,
        on_state: Callable[[str, int | None, int], None],
        on_fired: Callable[[str, str], None],
    ) -> None:
        self._post = post
        self._on_state = on_state
        self._on_fired = on_fired
        # Held where the connection is lost, and where a request is queued for it.
        self._lock = threading.Lock()
        self._connections = 0
        self._current: int | None = None
        # Watches of znodes with whether the znode existed, and of children. Only the connection thread touches these.
        self._of_data: dict[str, bool] = {}
        self._of_children: set[str] = set()
        # The last transaction seen before the connection broke, until all watches are set again.
        self._seen_all_of: int | None = None
        self._kazoo = HookedClient(
            hosts,
            session_timeout_ms=session_timeout_ms,
            # As the Java client, but with time for a second attempt at a single host: an attempt that comes while the
            # server starts may wait in vain.
            attempts=max(hosts.count(",") + 1, 3),
            credentials=credentials,
            tls=tls,
            on_state=self._state_changes,
            on_connected=self._has_connected,
            on_event=self._fired,
        )
        self.start = self._kazoo.start_async
        self.end = self._kazoo.end
        self.connection_has_ended = self._kazoo.connection_has_ended

    @property
    def last_zxid(self) -> int:
        """The last transaction that the server has mentioned."""
        return int(self._kazoo.last_zxid)

    def submit(self, request: Any, connection: int, done: Done) -> None:
        """Send a request over one connection; `done` is posted with its response or an exception."""
        taken = partial(self._watch, request) if getattr(request, "watcher", False) else None
        with self._lock:
            if connection == self._current:
                self._kazoo.call(request, Answer(self._post, done, taken))
                return
        self._post(done, ConnectionLoss())

    # From here on everything runs in the connection thread.

    def _fired(self, kind: str, path: str) -> None:
        """Post an event if there is a watch for it, and drop the watch."""
        is_hit = False
        if kind != EventType.CHILD:
            is_hit = self._of_data.pop(path, None) is not None
        if kind in (EventType.CHILD, EventType.DELETED) and path in self._of_children:
            self._of_children.discard(path)
            is_hit = True
        if is_hit:
            self._post(self._on_fired, kind, path)

    def _watch(self, request: Any, response: Any) -> None:
        if isinstance(request, GetChildren):
            self._of_children.add(request.path)
        else:
            self._of_data[request.path] = not (isinstance(request, Exists) and response is None)

    def _state_changes(self, state: str) -> None:
        with self._lock:
            self._current = None
        if state != KeeperState.CONNECTED:
            # Before the lost requests fail, because they are sent again at once if there seems to be a connection.
            self._post(self._on_state, state, None, 0)

    def _has_connected(self) -> None:
        self._set_watches()
        self._connections += 1
        self._current = self._connections
        session_id, _ = self._kazoo.client_id
        self._post(self._on_state, KeeperState.CONNECTED, self._current, session_id)

    def _set_watches(self) -> None:
        if not self._of_data and not self._of_children:
            return
        if self._seen_all_of is None:
            self._seen_all_of = self._kazoo.last_zxid
        requests = list(set_watches(self._seen_all_of, self._of_data, self._of_children))
        for request in requests[:-1]:
            self._kazoo.call(request, _WatchesSet(lambda: None))
        # Only the last response shows that all watches are set.
        self._kazoo.call(requests[-1], _WatchesSet(self._all_watches_are_set))

    def _all_watches_are_set(self) -> None:
        self._seen_all_of = None


class _WatchesSet:
    """kazoo's result of SetWatches."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done

    def set(self, response: Any = None) -> None:
        """Call `done`: the watches are set."""
        self._done()

    def set_exception(self, error: Exception) -> None:
        """End the session if the server refuses SetWatches, because its watches would miss changes."""
        if not isinstance(error, ConnectionLoss | SessionExpiredError | AuthFailedError):
            raise SessionExpiredError(f"watches could not be set again: {error!r}")


def set_watches(zxid: int, of_data: dict[str, bool], of_children: Iterable[str]) -> Iterator[SetWatches]:
    """Return the requests that set these watches again, each of a size that a server takes."""
    kinds = [(path, "data" if is_there else "exist") for path, is_there in of_data.items()]
    kinds += [(path, "child") for path in of_children]
    request, size = SetWatches(zxid, [], [], []), 0
    for path, kind in kinds:
        getattr(request, kind).append(path)
        size += len(path.encode()) + int_struct.size
        if size >= _SET_WATCHES_BYTES:
            yield request
            request, size = SetWatches(zxid, [], [], []), 0
    if size:
        yield request
