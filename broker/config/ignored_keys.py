"""Kafka's keys that Ottla does not use: harmless ones, and refused ones.

Owns the lists. A key leaves them when code reads it: a test compares them and the declared keys with Kafka's own. Must
not know any value in force. No counterpart in Kafka, which uses all its keys.
"""

import functools
from pathlib import Path

from ottla.wire.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, at_least

# These keys are refused, because data or clients would get less than the configuration asks for. The second item holds
# the harmless values, which are accepted like the empty one.
NO_SECURITY = "Ottla has no TLS, no SASL and no authorizer yet, and would serve everybody"
ALONE = "Ottla does not speak KRaft, and would not join that cluster"
NO_PLUGINS = "Ottla cannot run Java classes, and would ignore what this one enforces"
NO_REVOCATION = "Ottla does not check whether a certificate of ZooKeeper was revoked"
REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "alter.config.policy.class.name": (NO_PLUGINS, ()),
    "authorizer.class.name": (NO_SECURITY, ()),
    "client.quota.callback.class": (NO_PLUGINS, ()),
    "config.providers": (NO_PLUGINS, ()),
    "controller.quorum.bootstrap.servers": (ALONE, ()),
    "controller.quorum.voters": (ALONE, ()),
    "create.topic.policy.class.name": (NO_PLUGINS, ()),
    "delegation.token.master.key": (NO_SECURITY, ()),
    "delegation.token.secret.key": (NO_SECURITY, ()),
    "process.roles": (ALONE, ("broker,controller", "controller,broker")),
    "remote.log.storage.system.enable": ("Ottla keeps no data in remote storage", ("false",)),
    "ssl.client.auth": (NO_SECURITY, ("none",)),
    "zookeeper.metadata.migration.enable": (ALONE, ("false",)),
    "zookeeper.ssl.crl.enable": (NO_REVOCATION, ("false",)),
    "zookeeper.ssl.ocsp.enable": (NO_REVOCATION, ("false",)),
}
REFUSED_FAMILIES = ("sasl.", "ssl.")
# A combined KRaft node that is the only voter is a cluster by itself, so these may name one node.
MAY_NAME_ONE = ("controller.quorum.bootstrap.servers", "controller.quorum.voters")

_NO_THREADS = "No effect: Ottla has no such threads."
_NO_REMOTE = "No effect: Ottla has no remote storage."
_LONG_MAX = 2**63 - 1
_CLUSTER_WIDE = "cluster-wide"
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_POSITIVE = at_least(1)

IDLE_CONFIG = ConfigDef(
    [
        ConfigKey("background.threads", ConfigType.INT, 10, _POSITIVE, _NO_THREADS, _HIGH, _CLUSTER_WIDE),
        ConfigKey("num.io.threads", ConfigType.INT, 8, _POSITIVE, _NO_THREADS, _HIGH, _CLUSTER_WIDE),
        ConfigKey("num.network.threads", ConfigType.INT, 3, _POSITIVE, _NO_THREADS, _HIGH, _CLUSTER_WIDE),
        ConfigKey("remote.fetch.max.wait.ms", ConfigType.INT, 500, _POSITIVE, _NO_REMOTE, _MEDIUM, _CLUSTER_WIDE),
        ConfigKey("remote.list.offsets.request.timeout.ms", ConfigType.LONG, 30_000, _POSITIVE, _NO_REMOTE, _MEDIUM,
                  _CLUSTER_WIDE),
        ConfigKey("remote.log.index.file.cache.total.size.bytes", ConfigType.LONG, 1_073_741_824, _POSITIVE, _NO_REMOTE,
                  _LOW, _CLUSTER_WIDE),
        ConfigKey("remote.log.manager.copy.max.bytes.per.second", ConfigType.LONG, _LONG_MAX, _POSITIVE, _NO_REMOTE,
                  _MEDIUM, _CLUSTER_WIDE),
        ConfigKey("remote.log.manager.fetch.max.bytes.per.second", ConfigType.LONG, _LONG_MAX, _POSITIVE, _NO_REMOTE,
                  _MEDIUM, _CLUSTER_WIDE),
    ]
)  # fmt: skip
"""Unused keys that Kafka changes while it runs: they are checked and described as in Kafka."""


@functools.cache
def without_effect() -> frozenset[str]:
    """Return the undeclared harmless keys. The file is read when a configuration first has an undeclared key."""
    return frozenset(Path(__file__).with_name("keys_without_effect.txt").read_text().split())


def is_refused(name: str) -> bool:
    """Whether only harmless values of a key are accepted."""
    return name in REFUSED or _without_listener(name).startswith(REFUSED_FAMILIES)


def check_refused(name: str, text: str) -> None:
    """Raise ConfigError if it would be unsafe to ignore a key with this value."""
    plain = _without_listener(name)
    if not is_refused(name):
        return
    reason, harmless = REFUSED.get(plain, (NO_SECURITY, ()))
    value = text.strip().lower().replace(" ", "")
    if value in ("", *harmless) or (plain in MAY_NAME_ONE and "," not in value):
        return
    raise ConfigError(f"{name} cannot be honoured: {reason}. Remove the key to go on without it.")


def _without_listener(name: str) -> str:
    """Return the key that `listener.name.<listener>.<key>` sets for one listener."""
    return name.split(".", 3)[-1] if name.startswith("listener.name.") else name
