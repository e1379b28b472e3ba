"""A broker and a ZooKeeper with authentication: the configuration holds for the connection and the znodes."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, OPEN_ACL_UNSAFE, make_acl

from compat_tests.support.brokers import QUICK_JVM, Broker, Ottla, QuickKafka, running
from compat_tests.support.clients import create_topic
from compat_tests.support.zookeeper import ZooKeeper
from tests.zk.test_ensemble_security import Certificates, certificates, running_with_digest, tls_connect

pytestmark = pytest.mark.slow
__all__ = ["certificates", "tls_connect"]

CLIENT_LOGIN = """
Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="broker" password="of brokers"; };
"""
SENSITIVE = ("/config/users", "/config/brokers", "/delegation_token/tokens")
EVERYBODY_READS = make_acl("world", "anyone", read=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with running_with_digest(tmp_path_factory.mktemp("digest")) as server:
        yield server


@pytest.fixture
def login(tmp_path: Path) -> str:
    (tmp_path / "jaas.conf").write_text(CLIENT_LOGIN)
    return f"-Djava.security.auth.login.config={tmp_path / 'jaas.conf'}"


@contextmanager
def looking(connect: str, user: str | None) -> Iterator[KazooClient]:
    sasl = {"mechanism": "DIGEST-MD5", "username": user, "password": "of brokers"}
    client = KazooClient(connect, sasl_options=sasl if user else None)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def acls(client: KazooClient, path: str = "/") -> dict[str, set[ACL]]:
    found = {path: set(client.get_acls(path)[0])}
    for name in client.get_children(path):
        found |= acls(client, f"{path.rstrip('/')}/{name}")
    return found


def expected(path: str, owner: ACL) -> set[ACL]:
    if path == "/consumers":
        return set(OPEN_ACL_UNSAFE)
    return {owner} if path.startswith(SENSITIVE) else {owner, EVERYBODY_READS}


def work(broker: Broker) -> None:
    """Create znodes of all kinds: those of a broker, and those of a topic with a config."""
    create_topic(broker.bootstrap, "t", config={"retention.ms": "1000000"})


def settings(connect: str, *more: str) -> Sequence[str]:
    return [f"zookeeper.connect={connect}", "broker.id=1", "zookeeper.set.acl=true", *more]


def test_znodes_have_the_acls_of_apache_kafka(
    server: ZooKeeper, login: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class WithLogin(QuickKafka):
        jvm = (*QUICK_JVM, login)

    monkeypatch.setenv("KAFKA_OPTS", f"-Dsomething=else {login}")
    kinds = (Ottla, WithLogin)
    found = []
    for kind in kinds:
        connect = f"{server.connect}/{kind.__name__}"
        with running(kind, settings(connect), parent=tmp_path) as broker:
            work(broker)
            with looking(connect, "broker") as client:
                found.append(acls(client))
            with looking(connect, None) as stranger:
                assert stranger.get("/brokers/ids/1")[0]
    ours, theirs = found
    owner = make_acl("sasl", "broker", all=True)
    assert ours == {path: expected(path, owner) for path in ours}
    common = set(ours) & set(theirs)
    assert {"/", "/brokers/ids/1", "/brokers/topics/t/partitions/0/state", "/config/users", "/controller"} <= common
    assert {path: ours[path] for path in common} == {path: theirs[path] for path in common}


def test_a_broker_authenticates_by_its_certificate(
    tls_connect: str, certificates: Certificates, tmp_path: Path
) -> None:
    more = [
        "zookeeper.ssl.client.enable=true",
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
        f"zookeeper.ssl.keystore.location={certificates.client}",
        f"zookeeper.ssl.truststore.location={certificates.authority}",
        "zookeeper.ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    ]
    connect = f"{tls_connect}/certified"
    with running(Ottla, settings(connect, *more), parent=tmp_path) as broker:
        work(broker)
        tls = {"use_ssl": True, "certfile": str(certificates.client), "ca": str(certificates.authority)}
        client = KazooClient(connect, keyfile=str(certificates.client), **tls)
        client.start()
        found = acls(client)
        client.stop()
        client.close()
    owner = make_acl("x509", "CN=client", all=True)
    assert found == {path: expected(path, owner) for path in found}
    assert "/brokers/topics/t/partitions/0/state" in found


def refused(overrides: Sequence[str]) -> str:
    """Return the only line of a broker that does not start."""
    command = [sys.executable, "-P", "-m", "ottla", "serve", "--log-level", "FATAL"]
    command += [part for each in overrides for part in ("--override", each)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line


def test_a_failed_authentication_is_reported_in_one_line(
    server: ZooKeeper, login: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = f"log.dirs={tmp_path / 'data'}"
    listener = "listeners=PLAINTEXT://127.0.0.1:0"
    assert "ottla: zookeeper.set.acl is true, but" in refused(settings(server.connect, data, listener))
    text = CLIENT_LOGIN.replace("of brokers", "of others")
    (tmp_path / "jaas.conf").write_text(text)
    monkeypatch.setenv("KAFKA_OPTS", login)
    assert "has ended with AUTH_FAILED" in refused(settings(server.connect, data, listener))
    monkeypatch.delenv("KAFKA_OPTS")
    nobody = [f"zookeeper.connect=127.0.0.1:{server.port}", "zookeeper.connection.timeout.ms=300", data, listener]
    nobody += ["zookeeper.ssl.client.enable=true"]
    assert f"Timed out waiting for connection to 127.0.0.1:{server.port}" in refused(nobody)
