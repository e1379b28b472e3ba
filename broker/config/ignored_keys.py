"""Keys that Kafka knows and Ottla does not use: those that do no harm, and those that would.

Owns the lists. A key moves out of here on the day the code reads it: a test compares them and the declared keys with
Kafka's own. It must not know any value in force. Counterpart: none; Kafka uses all its keys.
"""

import functools
from pathlib import Path

from ottla.wire.config_def import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, at_least

# Ignoring one of these leaves data or clients with less than its author asked for, so it is refused. A value that asks
# for nothing stands: the second item names those beside the empty one.
NO_SECURITY = "Ottla has no TLS, no SASL and no authorizer yet, and would serve everybody"
ALONE = "Ottla speaks no KRaft, and would not join that cluster"
NO_PLUGINS = "Ottla cannot run Java classes, and would do without what this one enforces"
NO_REVOCATION = "Ottla does not look whether a certificate of ZooKeeper's was revoked"
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
# A combined KRaft node is a cluster of its own as long as it is the only voter.
MAY_NAME_ONE = ("controller.quorum.bootstrap.servers", "controller.quorum.voters")

_NO_THREADS = "No effect: Ottla has no such threads to count."
_NO_REMOTE = "No effect: a part of remote storage, which there is none of."
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
        ConfigKey("transaction.partition.verification.enable", ConfigType.BOOLEAN, True, None,
                  "No effect: there are no transactions.", _LOW, _CLUSTER_WIDE),
    ]
)  # fmt: skip
"""Keys that Kafka takes while it runs: they are checked and told as Kafka does, and nothing reads them."""


@functools.cache
def without_effect() -> frozenset[str]:
    """Return the undeclared keys that do no harm; read when a configuration first names one that nobody declares."""
    return frozenset(Path(__file__).with_name("keys_without_effect.txt").read_text().split())


def is_refused(name: str) -> bool:
    """Say whether a key is one of those that only a value that asks for nothing may have."""
    return name in REFUSED or _without_listener(name).startswith(REFUSED_FAMILIES)


def check_refused(name: str, text: str) -> None:
    """Raise ConfigError for a value that it would be unsafe to ignore."""
    plain = _without_listener(name)
    if not is_refused(name):
        return
    reason, harmless = REFUSED.get(plain, (NO_SECURITY, ()))
    value = text.strip().lower().replace(" ", "")
    if value in ("", *harmless) or (plain in MAY_NAME_ONE and "," not in value):
        return
    raise ConfigError(f"{name} cannot be honoured: {reason}. Remove it to go on without.")


def _without_listener(name: str) -> str:
    """Return the key that `listener.name.<listener>.<key>` sets for one listener."""
    return name.split(".", 3)[-1] if name.startswith("listener.name.") else name
