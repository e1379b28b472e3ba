"""The client's TLS and SASL with Apache Kafka 3.9: PEM stores, PLAIN and SCRAM, and refusals."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from compat_tests.support.brokers import Broker, ZooKeeperKafka, running
from compat_tests.support.jars import require
from compat_tests.support.zookeeper import free_port
from ottla.client.admin.users import Mechanism, Upsertion, alter_users
from ottla.client.cluster import open_client
from ottla.client.config import ClientConfig
from ottla.client.errors import AuthenticationError, ConnectionFailedError
from ottla.wire.config_def import ConfigError

pytestmark = pytest.mark.slow
PATIENCE_S = 120
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{}";'
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="bob" password="{}";'
USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin" user_admin="admin" user_alice="of plain";'
)


class Certificates(NamedTuple):
    """An authority, and the broker's and a client's certificates, each with its key, in PEM files."""

    authority: Path
    broker: Path
    client: Path


class Secured(NamedTuple):
    """A broker with a listener of each protocol."""

    broker: Broker
    ssl: str
    sasl_ssl: str
    sasl_plaintext: str
    certificates: Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    openssl = require("openssl")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], check=True, capture_output=True, cwd=folder)

    new_key = ("-newkey", "rsa:2048", "-nodes")
    run("req", "-x509", *new_key, "-days", "2", "-subj", "/CN=authority", "-keyout", "a.key", "-out", "authority.pem")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name in ("broker", "client"):
        run("req", *new_key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.request")
        signing = ("-CA", "authority.pem", "-CAkey", "a.key", "-CAcreateserial", "-extfile", "names", "-days", "2")
        run("x509", "-req", "-in", f"{name}.request", *signing, "-out", f"{name}.crt")
        text = (folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text()
        (folder / f"{name}.pem").write_text(text)
    return Certificates(*(folder / f"{name}.pem" for name in ("authority", "broker", "client")))


@pytest.fixture(scope="module")
def secured(certificates: Certificates) -> Iterator[Secured]:
    ports = {name: free_port() for name in ("SSL", "SASL_SSL", "SASL_PLAINTEXT")}
    plain = free_port()
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    settings = [
        f"listeners=PLAINTEXT://127.0.0.1:{plain},{listeners}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={certificates.broker}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={certificates.authority}",
        "listener.name.ssl.ssl.client.auth=required",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    ]
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    for listener in ("sasl_ssl", "sasl_plaintext"):
        settings += [
            f"listener.name.{listener}.plain.sasl.jaas.config={USERS}",
            f"listener.name.{listener}.scram-sha-256.sasl.jaas.config={scram}",
            f"listener.name.{listener}.scram-sha-512.sasl.jaas.config={scram}",
        ]

    class SecuredKafka(ZooKeeperKafka):
        def __init__(self, data: Path, overrides: list[str]) -> None:
            super().__init__(data, overrides)
            self.port = plain
            self.bootstrap = f"127.0.0.1:{plain}"

    with running(SecuredKafka, settings) as broker:
        trio.run(add_users, broker.bootstrap)
        where = {name: f"localhost:{port}" for name, port in ports.items()}
        yield Secured(broker, where["SSL"], where["SASL_SSL"], where["SASL_PLAINTEXT"], certificates)


async def add_users(bootstrap: str) -> None:
    """Create a SCRAM credential of each mechanism for bob."""
    async with open_client(ClientConfig({"bootstrap.servers": bootstrap})) as client:
        results = await alter_users(client, upsertions=[Upsertion("bob", each, b"of scram") for each in Mechanism])
    assert results == {"bob": None}


def trusting(secured: Secured, **more: str) -> dict[str, str]:
    return {"ssl.truststore.location": str(secured.certificates.authority), **more}


def login(mechanism: str, password: str) -> dict[str, str]:
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": module.format(password)}


def brokers_found(bootstrap: str, properties: dict[str, str]) -> int:
    async def ask() -> int:
        with trio.fail_after(PATIENCE_S):
            async with open_client(ClientConfig({**properties, "bootstrap.servers": bootstrap})) as client:
                await client.metadata(())
                # The broker advertises the listener of the first connection, which a second connection uses.
                await client.dedicated(next(iter(client.nodes)))
                return len(client.nodes)

    return trio.run(ask)


@pytest.mark.parametrize("as_text", [False, True])
def test_a_client_certificate_opens_a_listener_that_requires_one(secured: Secured, as_text: bool) -> None:
    client = secured.certificates.client.read_text()
    key, chain = client.partition("-----BEGIN CERTIFICATE")[0], client[client.index("-----BEGIN CERTIFICATE") :]
    stores = {"ssl.keystore.location": str(secured.certificates.client)}
    if as_text:
        stores = {
            "ssl.keystore.key": key,
            "ssl.keystore.certificate.chain": chain,
            "ssl.truststore.certificates": secured.certificates.authority.read_text(),
        }
    assert brokers_found(secured.ssl, {**trusting(secured), **stores, "security.protocol": "SSL"}) == 1


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize(
    ("mechanism", "password"),
    [("PLAIN", "of plain"), ("SCRAM-SHA-256", "of scram"), ("SCRAM-SHA-512", "of scram")],
)
def test_a_user_authenticates_with_each_mechanism(
    secured: Secured, protocol: str, mechanism: str, password: str
) -> None:
    bootstrap = secured.sasl_ssl if protocol == "SASL_SSL" else secured.sasl_plaintext
    properties = {**trusting(secured), **login(mechanism, password), "security.protocol": protocol}
    assert brokers_found(bootstrap, properties) == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_refused_in_the_brokers_words(secured: Secured, mechanism: str) -> None:
    properties = {**login(mechanism, "wrong"), "security.protocol": "SASL_PLAINTEXT"}
    with pytest.raises(AuthenticationError, match="Authentication failed"):
        brokers_found(secured.sasl_plaintext, properties)


def test_a_client_without_certificate_is_refused_if_one_is_required(secured: Secured) -> None:
    with pytest.raises((AuthenticationError, ConnectionFailedError)):
        brokers_found(secured.ssl, trusting(secured, **{"security.protocol": "SSL"}))


def test_a_broker_with_a_certificate_of_an_unknown_authority_is_not_trusted(secured: Secured) -> None:
    with pytest.raises(AuthenticationError, match="certificate is not trusted"):
        brokers_found(secured.sasl_ssl, {**login("PLAIN", "of plain"), "security.protocol": "SASL_SSL"})


def test_a_listener_of_another_protocol_is_recognised(secured: Secured) -> None:
    with pytest.raises(ConnectionFailedError, match="speaks TLS"):
        brokers_found(secured.sasl_ssl, {})
    with pytest.raises(ConnectionFailedError, match="during the TLS handshake"):
        brokers_found(secured.broker.bootstrap, {"security.protocol": "SSL"})
    with pytest.raises(ConnectionFailedError) as raised:
        brokers_found(secured.sasl_plaintext, {})
    assert "SASL" in raised.value.hint


def test_a_store_that_is_not_pem_is_refused_with_a_command_that_converts_it(tmp_path: Path) -> None:
    store = tmp_path / "trust.pem"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(ConfigError, match=r"trust\.pem is a JKS store.*keytool"):
        brokers_found("localhost:1", {"security.protocol": "SSL", "ssl.truststore.location": str(store)})
