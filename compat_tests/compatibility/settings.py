"""The brokers of trials: three kinds, each with settings that need a broker of their own."""

import base64
import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from compat_tests.support.brokers import ApacheKafka, Broker, Ottla, ZooKeeperKafka, running
from compat_tests.support.jars import require
from compat_tests.support.zookeeper import free_port

KINDS: tuple[type[Broker], ...] = (Ottla, ApacheKafka, ZooKeeperKafka)
PLAIN, STRICT, SECURED = "plain", "strict", "secured"
SETTINGS = (PLAIN, STRICT, SECURED)
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PASSWORD = "secret"
_LOGIN = "org.apache.kafka.common.security"
_JAAS = {
    "PLAIN": f'{_LOGIN}.plain.PlainLoginModule required username="admin" password="admin" user_alice="{PASSWORD}";',
    "SCRAM-SHA-256": f"{_LOGIN}.scram.ScramLoginModule required;",
    "SCRAM-SHA-512": f"{_LOGIN}.scram.ScramLoginModule required;",
    "OAUTHBEARER": f'{_LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="admin";',
}
_AUTHORIZERS = {
    ApacheKafka.name: "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ZooKeeperKafka.name: "kafka.security.authorizer.AclAuthorizer",
    Ottla.name: "kafka.security.authorizer.AclAuthorizer",
}


class Place(NamedTuple):
    """A running broker: its listener without security, and its listeners with other protocols."""

    bootstrap: str
    connections: dict[str, dict[str, Any]]


@contextlib.contextmanager
def broker_with(kind: type[Broker], setting: str) -> Iterator[Place]:
    """Run a broker of a kind with a setting during the block."""
    with contextlib.ExitStack() as stack:
        overrides = _overrides(kind)
        connections: dict[str, dict[str, Any]] = {}
        if setting == STRICT:
            overrides.append("auto.create.topics.enable=false")
        if setting == SECURED:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compat-")))
            ports = {name: free_port() for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "CONTROLLER")}
            kind = _with_port(kind, ports["PLAINTEXT"])
            overrides += _security(kind, ports, folder)
            connections = _connections(ports, folder)
        yield Place(stack.enter_context(running(kind, overrides)).bootstrap, connections)


def _overrides(kind: type[Broker]) -> list[str]:
    # Records with the times of scenarios are old.
    common = ["log.retention.ms=-1", "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=5"]
    if kind is ZooKeeperKafka:
        return [*common, "broker.id=1"]
    # Members of the newer protocol get their assignments in heartbeat responses.
    heartbeats = ["group.consumer.min.heartbeat.interval.ms=300", "group.consumer.heartbeat.interval.ms=300"]
    return [*common, "node.id=1", *(heartbeats if kind is ApacheKafka else ())]


def _with_port(kind: type[Broker], port: int) -> type[Broker]:
    class Secured(kind):  # type: ignore[misc, valid-type]
        def __init__(self, data: Path, overrides: list[str]) -> None:
            super().__init__(data, overrides)
            self.port = port
            self.bootstrap = f"{self.host}:{port}"

    return Secured


def _security(kind: type[Broker], ports: dict[str, int], folder: Path) -> list[str]:
    _make_certificates(folder)
    is_kraft = issubclass(kind, ApacheKafka)
    listeners = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items() if is_kraft or name != "CONTROLLER"}
    settings = [
        f"listeners={','.join(listeners.values())}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={folder / 'broker.pem'}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={folder / 'authority.pem'}",
        f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
        f"authorizer.class.name={_AUTHORIZERS[kind.name]}",
        "allow.everyone.if.no.acl.found=true",
        "super.users=User:ANONYMOUS;User:admin",
        "delegation.token.secret.key=a secret",
    ]
    for listener in ("sasl_plaintext", "sasl_ssl"):
        for mechanism, module in _JAAS.items():
            settings.append(f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config={module}")
    if is_kraft:
        protocols = ",".join(f"{name}:{'PLAINTEXT' if name == 'CONTROLLER' else name}" for name in ports)
        settings.append(f"listener.security.protocol.map={protocols}")
        settings.append(f"controller.quorum.voters=1@127.0.0.1:{ports['CONTROLLER']}")
    return settings


def _make_certificates(folder: Path) -> None:
    openssl = require("openssl")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], check=True, capture_output=True, cwd=folder)

    key = ("-newkey", "rsa:2048", "-nodes")
    run("req", "-x509", *key, "-days", "2", "-subj", "/CN=authority", "-keyout", "a.key", "-out", "authority.pem")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    run("req", *key, "-subj", "/CN=broker", "-keyout", "broker.key", "-out", "request")
    signing = ("-CA", "authority.pem", "-CAkey", "a.key", "-CAcreateserial", "-extfile", "names", "-days", "2")
    run("x509", "-req", "-in", "request", *signing, "-out", "broker.crt")
    (folder / "broker.pem").write_text((folder / "broker.key").read_text() + (folder / "broker.crt").read_text())


def _connections(ports: dict[str, int], folder: Path) -> dict[str, dict[str, Any]]:
    """Return the settings of connections, by protocol or mechanism."""
    ca = {"ca": str(folder / "authority.pem")}
    login = {"bootstrap": f"127.0.0.1:{ports['SASL_PLAINTEXT']}", "protocol": "SASL_PLAINTEXT"}
    found: dict[str, dict[str, Any]] = {"SSL": {"bootstrap": f"127.0.0.1:{ports['SSL']}", "protocol": "SSL", **ca}}
    for mechanism in MECHANISMS:
        found[mechanism] = {**login, "mechanism": mechanism, "user": "alice", "password": PASSWORD}
    found["OAUTHBEARER"]["token"] = _unsecured_token("alice")
    over_ssl = {"bootstrap": f"127.0.0.1:{ports['SASL_SSL']}", "protocol": "SASL_SSL", **ca}
    return {**found, "SASL_SSL": {**found["PLAIN"], **over_ssl}}


def _unsecured_token(user: str) -> str:
    now = int(time.time())
    parts: tuple[dict[str, Any], ...] = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + 3600})
    encoded = (base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts)
    return f"{'.'.join(encoded)}."
