"""The dynamic configs of brokers, as the store has them.

Owns the znodes that concern this broker, and reading them. Must not know what any config means.
Counterparts in Kafka: DynamicBrokerConfig.initialize, BrokerConfigHandler.
"""

from ottla.broker.cluster.unreadable_znodes import read_or_pass_over
from ottla.broker.config.dynamic import DynamicConfig
from ottla.zk.store import Session
from ottla.zk.znodes import DEFAULT_ENTITY, broker_config_path, decode_config


class BrokerConfigs:
    """The stored configs of one broker, and of all brokers."""

    def __init__(self, session: Session, broker_id: int, dynamic: DynamicConfig) -> None:
        self._session = session
        self._dynamic = dynamic
        self.entities = (DEFAULT_ENTITY, str(broker_id))

    async def refresh(self) -> None:
        """Read both and update the broker's configuration."""
        paths = [broker_config_path(entity) for entity in self.entities]
        found = await self._session.get_many(paths)
        default, own = (
            {} if znode is None else read_or_pass_over(path, decode_config, znode[0]) or {}
            for path, znode in zip(paths, found, strict=True)
        )
        await self._dynamic.update(default, own)
