"""The configs that brokers were given while they run, as they are kept in the store.

Owns which znodes concern this broker, and reading them. Must not know what any config means.
Counterparts in Kafka: DynamicBrokerConfig.initialize, BrokerConfigHandler.
"""

import logging
from collections.abc import Mapping

from ottla.broker.dynamic_config import DynamicConfig
from ottla.zk.store import Session, Stat
from ottla.zk.znodes import DEFAULT_ENTITY, ZnodeError, broker_config_path, decode_config

logger = logging.getLogger("kafka.server.BrokerConfigHandler")


class BrokerConfigs:
    """What is kept for one broker, and for all of them."""

    def __init__(self, session: Session, broker_id: int, dynamic: DynamicConfig) -> None:
        self._session = session
        self._dynamic = dynamic
        self.entities = (DEFAULT_ENTITY, str(broker_id))

    async def refresh(self) -> None:
        """Read both, and have the broker use them."""
        found = await self._session.get_many([broker_config_path(entity) for entity in self.entities])
        default, own = (_decode(entity, znode) for entity, znode in zip(self.entities, found, strict=True))
        await self._dynamic.update(default, own)


def _decode(entity: str, znode: tuple[bytes, Stat] | None) -> Mapping[str, str]:
    try:
        return {} if znode is None else decode_config(znode[0])
    except ZnodeError as error:
        # Whoever wrote this: no broker stops over it.
        logger.error("the configs of broker %s are taken for none: %s", entity, error)
        return {}
