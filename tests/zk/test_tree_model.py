"""Both stores against a model of a few lines, with sessions, watches and restarts."""

import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from compat_tests.support.zookeeper import ZooKeeper
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.ensemble import EnsembleStore
from ottla.zk.store import (
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
    SetData,
    StoreError,
    WatchEvent,
)
from tests.zk.stores import Loop, begin, inline

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
VERSIONS = st.integers(-1, 3)
DATA = st.binary(max_size=3)
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, PATHS, DATA, st.booleans(), st.booleans()),
    st.builds(SetData, PATHS, DATA, VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)
SESSIONS = st.integers(0, 1)


class ModelNode:
    """A znode of the model."""

    def __init__(self, data: bytes, owner: int | None) -> None:
        self.data = data
        self.owner = owner
        self.version = 0
        self.created = 0


def parent(path: str) -> str:
    return path[: path.rindex("/")] or "/"


class Model:
    """The tree as ZooKeeper's documentation describes it."""

    def __init__(self) -> None:
        self.nodes = {"/": ModelNode(b"", None)}

    def children(self, path: str) -> list[str]:
        return sorted(each for each in self.nodes if each != "/" and parent(each) == path)

    def do(self, operation: Operation, session: int) -> list[WatchEvent]:
        path = operation.path
        if isinstance(operation, Create):
            above = self.nodes.get(parent(path))
            if above is None:
                raise NoNodeError
            if above.owner is not None:
                raise NoChildrenForEphemeralsError
            if operation.sequential:
                path += f"{above.created:010d}"
            if path in self.nodes:
                raise NodeExistsError
            above.created += 1
            self.nodes[path] = ModelNode(operation.data, session if operation.ephemeral else None)
            return [WatchEvent(EventType.CREATED, path), WatchEvent(EventType.CHILD, parent(path))]
        node = self.nodes.get(path)
        if node is None:
            raise NoNodeError
        if operation.version not in (-1, node.version):
            raise BadVersionError
        if isinstance(operation, SetData):
            node.data = operation.data
            node.version += 1
            return [WatchEvent(EventType.CHANGED, path)]
        if isinstance(operation, Delete):
            if self.children(path):
                raise NotEmptyError
            del self.nodes[path]
            return [WatchEvent(EventType.DELETED, path), WatchEvent(EventType.CHILD, parent(path))]
        return []

    def copy(self) -> "Model":
        model = Model()
        for path, node in self.nodes.items():
            model.nodes[path] = ModelNode(node.data, node.owner)
            model.nodes[path].version, model.nodes[path].created = node.version, node.created
        return model


class StoreMachine(RuleBasedStateMachine):
    """Drives a store and the model, and compares after each step."""

    store: EmbeddedStore | EnsembleStore

    @initialize()
    def start(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.loop = Loop()
        self.model = Model()
        self.last_zxid = 0
        self.open()

    def make_store(self) -> EmbeddedStore | EnsembleStore:
        """Reopen the store at the same path."""
        return EmbeddedStore(Path(self.directory.name) / "store.db", inline)

    def open(self) -> None:
        self.store = self.make_store()
        self.loop.run(self.store.open)
        self.clients = [self.loop.run(begin, self.store) for _ in range(2)]
        self.watches: list[set[tuple[str, bool]]] = [set(), set()]

    def call(self, function: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        try:
            return self.loop.run(partial(function, *args, **options))
        except StoreError as error:
            return type(error)

    def settle(self) -> None:
        """Read in every session, because a read comes after the events of the changes that it shows."""
        for client in self.clients:
            self.call(client.session.exists, "/")

    def expect_events(self, events: list[WatchEvent]) -> None:
        self.settle()
        for client, watches in zip(self.clients, self.watches, strict=True):
            expected = []
            for event in events:
                hit = {
                    (path, of_children)
                    for path, of_children in watches
                    if path == event.path
                    and (event.type is EventType.DELETED or (event.type is EventType.CHILD) == of_children)
                }
                if event.type is EventType.CREATED:
                    hit = {each for each in hit if not each[1]}
                if hit:
                    watches -= hit
                    expected.append(event)
            assert client.events == expected
            client.events.clear()

    @rule(session=SESSIONS, operations=st.lists(OPERATIONS, min_size=1, max_size=4))
    def multi(self, session: int, operations: list[Operation]) -> None:
        outcome = self.call(self.clients[session].session.multi, operations)
        changed = self.model.copy()
        events: list[WatchEvent] = []
        expected: object = list
        try:
            for operation in operations:
                events += changed.do(operation, session)
            self.model = changed
        except StoreError as error:
            expected = type(error)
            events = []
        assert expected in (outcome, type(outcome))
        self.expect_events(events)

    @rule(session=SESSIONS, depth=st.integers(2, 3), also=st.lists(OPERATIONS, max_size=2))
    def make_a_family(self, session: int, depth: int, also: list[Operation]) -> None:
        paths = ["/a", "/a/b", "/a/c", *(["/a/b/a", "/a/c/a", "/a/c/b"] if depth == 3 else [])]
        self.multi(session, [*(Create(path) for path in paths if path not in self.model.nodes), *also])

    @rule(session=SESSIONS, also=st.lists(OPERATIONS, max_size=2), data=st.data())
    def remove_a_family(self, session: int, also: list[Operation], data: st.DataObject) -> None:
        family = [path for path in self.model.nodes if path == "/a" or path.startswith("/a/")]
        shuffled = data.draw(st.permutations(family))
        self.multi(session, [*(Delete(path) for path in sorted(shuffled, key=len, reverse=True)), *also])

    @rule(session=SESSIONS, path=PATHS)
    def watch_data(self, session: int, path: str) -> None:
        found = self.call(self.clients[session].session.get, path, watch=True)
        if path in self.model.nodes:
            assert found[0] == self.model.nodes[path].data
            self.watches[session].add((path, False))
        else:
            assert found is NoNodeError

    @rule(session=SESSIONS, path=PATHS)
    def watch_existence(self, session: int, path: str) -> None:
        found = self.call(self.clients[session].session.exists, path, watch=True)
        assert (found is not None) == (path in self.model.nodes)
        self.watches[session].add((path, False))

    @rule(session=SESSIONS, path=PATHS)
    def watch_children(self, session: int, path: str) -> None:
        if self.call(self.clients[session].session.children, path, watch=True) is not NoNodeError:
            self.watches[session].add((path, True))

    @rule(session=SESSIONS)
    def end_session(self, session: int) -> None:
        self.loop.run(self.clients[session].session.close)
        self.settle()
        self.watches[session].clear()
        gone = [path for path, node in self.model.nodes.items() if node.owner == session]
        events = []
        for path in sorted(gone, key=len, reverse=True):
            events += self.model.do(Delete(path), session)
        watched = {client: list(client.events) for client in self.clients}
        # The order of deletion of a session's znodes is not promised.
        for client, watches in zip(self.clients, self.watches, strict=True):
            told = {event.path for event in watched[client]}
            assert told == {
                event.path
                for event in events
                for path, of_children in watches
                if path == event.path
                and (event.type is EventType.DELETED or (event.type is EventType.CHILD) == of_children)
            }
            watches -= {each for each in watches if each[0] in told and self.fired(each, events)}
            client.events.clear()
        self.clients[session] = self.loop.run(begin, self.store)

    @staticmethod
    def fired(watch: tuple[str, bool], events: list[WatchEvent]) -> bool:
        path, of_children = watch
        return any(
            event.path == path and (event.type is EventType.DELETED or (event.type is EventType.CHILD) == of_children)
            for event in events
        )

    @rule()
    def restart(self) -> None:
        self.loop.run(self.store.close)
        for path in [path for path, node in self.model.nodes.items() if node.owner is not None]:
            del self.model.nodes[path]
        self.open()

    @invariant()
    def the_trees_are_equal(self) -> None:
        session = self.clients[0].session
        paths = ["/"]
        for path in paths:
            names = [each.rpartition("/")[2] for each in self.model.children(path)]
            assert self.call(session.children, path) == names
            paths += [f"{path.rstrip('/')}/{name}" for name in names]
        assert set(paths) == set(self.model.nodes)
        for path, (data, stat) in zip(paths, self.call(session.get_many, paths), strict=True):
            node, children = self.model.nodes[path], len(self.model.children(path))
            owner = 0 if node.owner is None else self.clients[node.owner].session.session_id
            assert (data, stat.version, stat.cversion, stat.num_children, stat.ephemeral_owner) == (
                *(node.data, node.version, node.created * 2 - children, children, owner),
            )
        if isinstance(self.store, EmbeddedStore):
            assert self.store.tree.zxid >= self.last_zxid
            self.last_zxid = self.store.tree.zxid

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.loop.run(self.store.close)
            self.loop.stop()
            self.directory.cleanup()


TestStoreAgainstModel = StoreMachine.TestCase
TestStoreAgainstModel.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.slow
@pytest.mark.trials(few=20, soak=100)
def test_an_ensemble_agrees_with_the_model(zookeeper: ZooKeeper, trials: int) -> None:
    class EnsembleMachine(StoreMachine):
        def make_store(self) -> EnsembleStore:
            return EnsembleStore(f"{zookeeper.connect}/{Path(self.directory.name).name}")

    run_state_machine_as_test(
        EnsembleMachine,
        settings=settings(
            max_examples=trials, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
