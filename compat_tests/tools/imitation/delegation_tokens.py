"""kafka-delegation-tokens, on a listener with authentication."""

import re

from compat_tests.support.brokers import Broker, ZooKeeperKafka
from compat_tests.support.tools import Printed, Runs
from compat_tests.tools.imitation.tools import CLASSES


class SecuredKafka39(ZooKeeperKafka):
    """A broker that answers only ApiVersions without a password."""

    def _wait_until_it_knows_itself(self) -> None:
        pass


_LOGIN = "org.apache.kafka.common.security.{}LoginModule required username={} password={}"
_COMMON = [
    "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name=PLAINTEXT",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol=PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config="
    + _LOGIN.format("plain.Plain", "admin", "admin")
    + " user_admin=admin user_alice=wonder;",
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config=" + _LOGIN.format("scram.Scram", "admin", "admin") + ";",
]
BROKERS = ("Kafka", "Kafka 3.9")
QUICK = "Kafka"
KINDS = {"Kafka 3.9": SecuredKafka39}
SETTINGS = {
    "Kafka": [
        *_COMMON,
        "delegation.token.secret.key=secret",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:admin;User:ANONYMOUS",
    ],
    "Kafka 3.9": [
        *_COMMON,
        "delegation.token.secret.key=secret",
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
        "super.users=User:admin",
    ],
}


def _client(user: str, password: str) -> str:
    login = _LOGIN.format("plain.Plain", user, password)
    return f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login};\n"


FILES = {
    "admin.properties": _client("admin", "admin"),
    "alice.properties": _client("alice", "wonder"),
    "wrong.properties": _client("alice", "land"),
}
_ADMIN = "--command-config admin.properties"
_ALICE = "--command-config alice.properties"
COMMANDS = {
    "delegation-tokens: tokens are created and described": f"""
        delegation-tokens {_ADMIN} --create --max-life-time-period -1
        delegation-tokens {_ADMIN} --create --max-life-time-period 3600000 --renewer-principal User:bob
        delegation-tokens {_ADMIN} --create --max-life-time-period 1 --renewer-principal User:b --renewer-principal A:c
        delegation-tokens {_ADMIN} --create --max-life-time-period -1 --owner-principal User:carl
        delegation-tokens {_ADMIN} --describe
        delegation-tokens {_ADMIN} --describe --owner-principal User:carl
        delegation-tokens {_ADMIN} --describe --owner-principal User:nobody
        delegation-tokens {_ALICE} --describe
        delegation-tokens {_ALICE} --describe --owner-principal User:admin
    """,
    "delegation-tokens: a token is renewed and expires": f"""
        delegation-tokens {_ADMIN} --renew --hmac TOKEN_HMAC --renew-time-period -1
        delegation-tokens {_ADMIN} --renew --hmac TOKEN_HMAC --renew-time-period 60000
        delegation-tokens {_ADMIN} --expire --hmac TOKEN_HMAC --expiry-time-period 7200000
        delegation-tokens {_ADMIN} --expire --hmac TOKEN_HMAC --expiry-time-period -1
        delegation-tokens {_ADMIN} --renew --hmac TOKEN_HMAC --renew-time-period -1
        delegation-tokens {_ADMIN} --expire --hmac TOKEN_HMAC --expiry-time-period -1
    """,
    "delegation-tokens: what the cluster refuses": f"""
        delegation-tokens {_ADMIN} --renew --hmac bm9ib2R5cw== --renew-time-period -1
        delegation-tokens {_ADMIN} --renew --hmac no-base64 --renew-time-period -1
        delegation-tokens {_ADMIN} --renew --hmac a --renew-time-period -1
        delegation-tokens {_ADMIN} --renew --hmac bm9ib --renew-time-period -1
        delegation-tokens {_ADMIN} --create --max-life-time-period -1 --renewer-principal Group:bob
        delegation-tokens {_ADMIN} --create --max-life-time-period -1 --renewer-principal bob
        delegation-tokens {_ADMIN} --describe --owner-principal bob
        delegation-tokens {_ALICE} --create --max-life-time-period -1 --owner-principal User:bob
        delegation-tokens --command-config missing.properties --describe
        acls --command-config wrong.properties --list
        acls {_ALICE} --list
        acls {_ALICE} --add --allow-principal User:alice --operation Create --cluster
        acls {_ALICE} --remove --topic t --force
    """,
    "delegation-tokens: wrong usage is refused": f"""
        delegation-tokens
        delegation-tokens --help
        delegation-tokens --version
        delegation-tokens --frob
        delegation-tokens --create --describe
        delegation-tokens --describe
        delegation-tokens {_ADMIN}
        delegation-tokens {_ADMIN} --create
        delegation-tokens {_ADMIN} --create --max-life-time-period long
        delegation-tokens {_ADMIN} --create --max-life-time-period 1 --max-life-time-period 2
        delegation-tokens {_ADMIN} --renew
        delegation-tokens {_ADMIN} --renew --hmac a
        delegation-tokens {_ADMIN} --expire --hmac a
        delegation-tokens {_ADMIN} --create --max-life-time-period 1 --hmac a
        delegation-tokens {_ADMIN} --renew --hmac a --renew-time-period 1 --owner-principal User:alice
        delegation-tokens {_ADMIN} --expire --hmac a --expiry-time-period 1 --renew-time-period 1
        delegation-tokens {_ADMIN} --describe --hmac a
    """,
}
_CREATED = re.compile(r"tokenId : (\S+)\n.*?\n\n\1 +(\S+) ", re.DOTALL)
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
_ID = re.compile(r"(?<=tokenId : )\S{22}|^\S{22}(?= \S{86}==)", re.MULTILINE)
_HMAC = re.compile(r"\S{86}==")
_REQUEST = re.compile(r"Request\(processor=.*?envelope=None\)")
_ROWS = re.compile(r"^ID .*$", re.MULTILINE)


def prepare(tools: Runs, broker: Broker) -> None:
    """Create the token of the scenarios."""
    created = tools.run(
        CLASSES["delegation-tokens"],
        *("--bootstrap-server", broker.bootstrap, "--command-config", "admin.properties"),
        *("--create", "--max-life-time-period", "-1", "--owner-principal", "User:renewed"),
    )
    found = _CREATED.search(created.stdout)
    assert found, created
    broker.names["TOKEN_HMAC"] = found[2]


def normalized(command: str, printed: Printed) -> Printed:
    """Leave out ids and times, and sort tokens, because brokers keep them in hash maps of random ids."""
    printed = printed._replace(stdout=_REQUEST.sub("REQUEST", printed.stdout))
    stdout = _HMAC.sub("HMAC", _ID.sub("ID", _DATE.sub("DATE", printed.stdout)))
    rows = iter(sorted(_ROWS.findall(stdout)))
    return Printed(printed.code, _ROWS.sub(lambda _: next(rows), stdout), printed.stderr)
