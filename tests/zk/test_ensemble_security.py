"""Authentication by DIGEST-MD5 and TLS, and ACLs."""

import itertools
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
import trio

from compat_tests.support.jars import require
from compat_tests.support.zookeeper import ZooKeeper, free_port, running
from ottla.zk.ensemble import EnsembleStore
from ottla.zk.store import Create, Session, StoreFailedError
from tests.zk.proxy import proxy_to

pytestmark = pytest.mark.slow

JAAS = """
Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
    user_broker="of brokers"
    user_other="of others";
};
"""
BROKER = ("broker", "of brokers")
PATIENCE_S = 120

_chroots = itertools.count()


@contextmanager
def running_with_digest(directory: Path, *more_settings: str) -> Iterator[ZooKeeper]:
    (directory / "jaas.conf").write_text(JAAS)
    settings = ["authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", *more_settings]
    with running(directory, settings, [f"-Djava.security.auth.login.config={directory / 'jaas.conf'}"]) as server:
        yield server


@pytest.fixture(scope="module")
def digest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with running_with_digest(tmp_path_factory.mktemp("digest")) as server:
        yield server


@asynccontextmanager
async def session_with(store: EnsembleStore) -> AsyncIterator[Session]:
    with trio.fail_after(PATIENCE_S):
        await store.open()
        yield await store.session(lambda event: None)
        await store.close()


async def make_a_tree(session: Session) -> None:
    paths = ["/consumers", "/brokers", "/brokers/topics", "/config", "/config/users", "/config/users/alice"]
    await session.multi([Create(path, path.encode()) for path in paths])


async def is_allowed(session: Session, call: str, path: str) -> bool:
    try:
        await (session.get(path) if call == "read" else session.set(path, b"changed"))
    except StoreFailedError as error:
        if "NoAuth" not in str(error):
            raise
        return False
    return True


async def test_other_clients_read_znodes_that_are_not_sensitive_and_change_none(digest_server: ZooKeeper) -> None:
    connect = f"{digest_server.connect}/digest{next(_chroots)}"
    async with session_with(EnsembleStore(connect, set_acl=True, credentials=BROKER)) as session:
        await make_a_tree(session)
        for credentials in (None, ("other", "of others")):
            async with session_with(EnsembleStore(connect, credentials=credentials)) as other:
                assert await is_allowed(other, "read", "/brokers/topics")
                assert not await is_allowed(other, "change", "/brokers/topics")
                assert not await is_allowed(other, "read", "/config/users/alice")
                assert not await is_allowed(other, "change", "/")
                assert await is_allowed(other, "change", "/consumers")
        async with session_with(EnsembleStore(connect, set_acl=True, credentials=BROKER)) as second_broker:
            assert await is_allowed(second_broker, "read", "/config/users/alice")
            assert await is_allowed(second_broker, "change", "/brokers/topics")


async def test_without_acls_every_client_may_change_every_znode(digest_server: ZooKeeper) -> None:
    connect = f"{digest_server.connect}/digest{next(_chroots)}"
    async with session_with(EnsembleStore(connect, credentials=BROKER)) as session:
        await make_a_tree(session)
        async with session_with(EnsembleStore(connect)) as other:
            assert await is_allowed(other, "change", "/config/users/alice")


@pytest.mark.parametrize("credentials", [("broker", "of others"), ("nobody", "")])
async def test_a_wrong_password_is_refused_at_once(digest_server: ZooKeeper, credentials: tuple[str, str]) -> None:
    store = EnsembleStore(digest_server.connect, credentials=credentials, connection_timeout_ms=PATIENCE_S * 2_000)
    with trio.fail_after(PATIENCE_S), pytest.raises(StoreFailedError, match="AUTH_FAILED"):
        await store.session(lambda event: None)


async def test_a_server_that_requires_sasl_refuses_missing_and_wrong_credentials(tmp_path: Path) -> None:
    with running_with_digest(tmp_path, "enforce.auth.enabled=true", "enforce.auth.schemes=sasl") as server:
        with trio.fail_after(PATIENCE_S):
            with pytest.raises(StoreFailedError, match="AUTH_FAILED"):
                await EnsembleStore(server.connect, credentials=("broker", "of others")).session(lambda event: None)
            store = EnsembleStore(server.connect)
            nobody = await store.session(lambda event: None)
            with pytest.raises(StoreFailedError, match="RequireSasl"):
                await nobody.exists("/")
            await store.close()
        async with session_with(EnsembleStore(server.connect, credentials=BROKER)) as session:
            assert await session.exists("/") is not None


async def test_a_session_authenticates_again_when_it_reconnects(digest_server: ZooKeeper) -> None:
    connect = f"{digest_server.connect}/digest{next(_chroots)}"
    async with session_with(EnsembleStore(connect, set_acl=True, credentials=BROKER)) as session:
        await make_a_tree(session)
        digest_server.kill()
        digest_server.start()
        assert await is_allowed(session, "read", "/config/users/alice")


async def test_a_connection_that_breaks_during_authentication_does_not_end_the_session(
    digest_server: ZooKeeper,
) -> None:
    async with proxy_to(digest_server.port) as proxy:
        store = EnsembleStore(proxy.connect, credentials=BROKER)
        async with session_with(store) as session:
            # The response to Connect is forwarded, the response to the first SASL token is not.
            proxy.hold_answers(but_for=1)
            proxy.cut()
            proxy.let_come()
            requests = proxy.requests
            while proxy.requests < requests + 2:
                await trio.sleep(0.01)
            proxy.cut()
            proxy.heal()
            assert await session.exists("/") is not None


class Certificates:
    """A certificate authority, with certificates of a server and a client."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.authority = self._make("authority")
        self.server = self._make("server", "-CA", "authority.crt", "-CAkey", "authority.key")
        self.client = self._make("client", "-CA", "authority.crt", "-CAkey", "authority.key")

    def _make(self, name: str, *signer: str) -> Path:
        command = [require("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        command += ["-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt", *signer]
        command += ["-addext", "subjectAltName=IP:127.0.0.1"] if name == "server" else []
        subprocess.run(command, cwd=self._directory, check=True, capture_output=True)
        both = self._directory / f"{name}.pem"
        both.write_text("".join((self._directory / f"{name}.{kind}").read_text() for kind in ("key", "crt")))
        return both

    def context(self, *, is_known: bool = True) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority)
        if is_known:
            context.load_cert_chain(self.client)
        return context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls_connect(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The connect string of a server that requires client certificates."""
    port = free_port()
    settings = [
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"secureClientPort={port}",
        "secureClientPortAddress=127.0.0.1",
        f"ssl.keyStore.location={certificates.server}",
        f"ssl.trustStore.location={certificates.authority}",
        "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider",
    ]
    with running(tmp_path_factory.mktemp("tls"), settings):
        yield f"127.0.0.1:{port}"


async def test_a_client_authenticates_by_its_certificate(tls_connect: str, certificates: Certificates) -> None:
    store = EnsembleStore(f"{tls_connect}/tls{next(_chroots)}", set_acl=True, tls=certificates.context())
    async with session_with(store) as session:
        await make_a_tree(session)
        assert await is_allowed(session, "read", "/config/users/alice")
        found = await session.get_many(["/brokers"] * 50)
        assert found == [await session.get("/brokers")] * 50
        data = b"x" * 900_000
        await session.set("/brokers", data)
        assert (await session.get("/brokers"))[0] == data


async def test_all_responses_in_one_tls_record_are_read(zookeeper: ZooKeeper, certificates: Certificates) -> None:
    """The socket is not readable then, because the rest is in the TLS layer."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server)

    async def serve(client: trio.SSLStream[trio.SocketStream]) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", zookeeper.port) as server, trio.open_nursery() as nursery:
            nursery.start_soon(forward, client, server, 0)
            nursery.start_soon(forward, server, client, 0.02)

    async def forward(source: trio.abc.ReceiveStream, sink: trio.abc.SendStream, gather_s: float) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := bytearray(await source.receive_some()):
                with trio.move_on_after(gather_s):
                    while gather_s and (more := await source.receive_some()):
                        data += more
                await sink.send_all(data)
            await sink.aclose()

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, serve, [listener])
            port = listener.transport_listener.socket.getsockname()[1]  # type: ignore[attr-defined]
            store = EnsembleStore(f"127.0.0.1:{port}", tls=certificates.context())
            session = await store.session(lambda event: None)
            with trio.fail_after(120):
                assert len(await session.get_many(["/"] * 10)) == 10
            await store.close()
            nursery.cancel_scope.cancel()


async def test_neither_side_trusts_an_unknown_certificate(
    tls_connect: str, certificates: Certificates, tmp_path: Path
) -> None:
    foreign = Certificates(tmp_path)
    # The server's name is not in its certificate.
    elsewhere = tls_connect.replace("127.0.0.1", "localhost")
    for connect, context in (
        (tls_connect, certificates.context(is_known=False)),
        (tls_connect, foreign.context()),
        (elsewhere, certificates.context()),
        (tls_connect, None),
    ):
        store = EnsembleStore(connect, tls=context, connection_timeout_ms=400)
        with trio.fail_after(PATIENCE_S), pytest.raises(StoreFailedError, match="Timed out"):
            await store.session(lambda event: None)
