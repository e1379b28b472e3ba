"""The tree of znodes in memory, and the rules by which transactions change it.

PURE. Owns ZooKeeper's semantics: versions, sequence numbers, the error of each operation, the events of each change.
Must not know sessions' watches, disks or tasks. Counterpart: ZooKeeper's DataTree and PrepRequestProcessor.

A `Draft` holds the changes of transactions until they are on disk; then `Tree.take` makes them visible.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.zk.store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    Delete,
    EventType,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Result,
    SetData,
    Stat,
    StoreError,
    WatchEvent,
)


class Znode(NamedTuple):
    """A znode. `creates` counts the children ever created, because sequence numbers come from it."""

    data: bytes
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int
    creates: int
    ephemeral_owner: int
    num_children: int

    @property
    def stat(self) -> Stat:
        """The stat as clients see it: `cversion` counts creations and deletions of children."""
        return Stat(
            self.czxid,
            self.mzxid,
            self.pzxid,
            self.ctime,
            self.mtime,
            self.version,
            self.creates * 2 - self.num_children,
            self.ephemeral_owner,
            len(self.data),
            self.num_children,
        )


def parent_of(path: str) -> str:
    """Return the path of a znode's parent; the root is its own parent."""
    return path.rpartition("/")[0] or "/"


def check_path(path: str) -> None:
    """Raise ValueError for a path that ZooKeeper refuses."""
    parts = path.split("/")
    if path == "/":
        return
    if parts[0] or len(parts) < 2 or "\0" in path or any(part in ("", ".", "..") for part in parts[1:]):
        raise ValueError(f"not the path of a znode: {path!r}")


class Tree:
    """The committed znodes."""

    def __init__(self, nodes: Iterable[tuple[str, Znode]] = (), zxid: int = 0) -> None:
        """Build the tree from a journal's znodes; their `num_children` are counted here."""
        self.zxid = zxid
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0, 0, 0, 0, 0, 0, 0)}
        self.nodes.update(nodes)
        self.children: dict[str, set[str]] = {}
        for path in self.nodes:
            if path != "/":
                self.children.setdefault(parent_of(path), set()).add(path.rpartition("/")[2])
        for path, node in self.nodes.items():
            self.nodes[path] = node._replace(num_children=len(self.children.get(path, ())))

    def take(self, draft: "Draft") -> None:
        """Commit a draft's changes."""
        self.zxid = draft.zxid
        for path, node in draft.changes.items():
            if node is None:
                # A deleted parent may come before its deleted children.
                self.nodes.pop(path, None)
                self.children.pop(path, None)
                self.children.get(parent_of(path), set()).discard(path.rpartition("/")[2])
                continue
            if path not in self.nodes and path != "/":
                self.children.setdefault(parent_of(path), set()).add(path.rpartition("/")[2])
            self.nodes[path] = node

    def owned_by(self, session_id: int) -> list[str]:
        """Return the paths of a session's ephemeral znodes."""
        return [path for path, node in self.nodes.items() if node.ephemeral_owner == session_id]


class Draft:
    """Changes on top of a tree that must not change meanwhile: znodes by path, None for a deleted znode."""

    def __init__(self, tree: Tree, now_ms: int) -> None:
        self._tree = tree
        self._now_ms = now_ms
        self.zxid = tree.zxid
        self.changes: dict[str, Znode | None] = {}
        self.events: list[WatchEvent] = []
        self._undo: list[tuple[str, Znode | None, bool]] = []

    def find(self, path: str) -> Znode | None:
        """Return the znode with the draft's changes."""
        if path in self.changes:
            return self.changes[path]
        return self._tree.nodes.get(path)

    def apply(self, operations: Sequence[Operation], session_id: int) -> list[Result]:
        """Do all operations, or do none and raise the error of the first that fails."""
        events = len(self.events)
        self._undo.clear()
        self.zxid += 1
        results = []
        for position, operation in enumerate(operations):
            try:
                results.append(self._do(operation, session_id))
            except StoreError as error:
                error.operation = position
                self._roll_back(events)
                raise
        return results

    def _roll_back(self, events: int) -> None:
        self.zxid -= 1
        del self.events[events:]
        for path, node, was_changed in reversed(self._undo):
            if was_changed:
                self.changes[path] = node
            else:
                del self.changes[path]

    def _put(self, path: str, node: Znode | None) -> None:
        self._undo.append((path, self.changes.get(path), path in self.changes))
        self.changes[path] = node

    def _do(self, operation: Operation, session_id: int) -> Result:
        match operation:
            case Create():
                return self._create(operation, session_id)
            case SetData(path, data, version):
                node = self._expect(path, version)
                node = node._replace(data=data, mzxid=self.zxid, mtime=self._now_ms, version=node.version + 1)
                self._put(path, node)
                self.events.append(WatchEvent(EventType.CHANGED, path))
                return Result(path, node.stat)
            case Delete(path, version):
                return self._delete(path, version)
            case Check(path, version):
                return Result(path, self._expect(path, version).stat)

    def _expect(self, path: str, version: int) -> Znode:
        node = self.find(path)
        if node is None:
            raise NoNodeError(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersionError(f"{path} has version {node.version}, not {version}")
        return node

    def _create(self, operation: Create, session_id: int) -> Result:
        path = operation.path
        parent_path = parent_of(path)
        parent = self.find(parent_path)
        if parent is None:
            raise NoNodeError(f"{path} has no parent")
        if parent.ephemeral_owner:
            raise NoChildrenForEphemeralsError(path)
        if operation.sequential:
            path = f"{path}{parent.creates:010d}"
        if self.find(path) is not None:
            raise NodeExistsError(path)
        now, zxid = self._now_ms, self.zxid
        owner = session_id if operation.ephemeral else 0
        node = Znode(operation.data, zxid, zxid, zxid, now, now, 0, 0, owner, 0)
        self._put(path, node)
        parent = parent._replace(pzxid=zxid, creates=parent.creates + 1, num_children=parent.num_children + 1)
        self._put(parent_path, parent)
        self.events.append(WatchEvent(EventType.CREATED, path))
        self.events.append(WatchEvent(EventType.CHILD, parent_path))
        return Result(path, node.stat)

    def _delete(self, path: str, version: int) -> Result:
        node = self._expect(path, version)
        if node.num_children:
            raise NotEmptyError(path)
        if path == "/":
            raise NotEmptyError("the root stays")
        self._put(path, None)
        parent_path = parent_of(path)
        parent = self.find(parent_path)
        assert parent is not None
        self._put(parent_path, parent._replace(pzxid=self.zxid, num_children=parent.num_children - 1))
        self.events.append(WatchEvent(EventType.DELETED, path))
        self.events.append(WatchEvent(EventType.CHILD, parent_path))
        return Result(path, None)
