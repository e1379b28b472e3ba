"""A broker's first steps in the store: persistent paths, the cluster's id, its own registration.

Owns these steps over a session. Must not know which store it is, nor what a controller does.
Counterpart in Kafka: the corresponding methods of KafkaZkClient, called by KafkaServer.startup.
"""

import logging
from typing import Final

import trio

from ottla.zk.store import Create, NodeExistsError, Operation, Session, StoreError
from ottla.zk.strict_json import ZnodeError
from ottla.zk.znodes import (
    BROKER_SEQUENCE_ID,
    CLUSTER_ID,
    PERSISTENT_PATHS,
    BrokerInfo,
    broker_id_path,
    decode_cluster_id,
    encode_cluster_id,
    parents_of,
)

logger = logging.getLogger("kafka.zk.KafkaZkClient")

_LOOK_AGAIN_AFTER_SECONDS: Final = 0.2


class BrokerIdInUseError(Exception):
    """Another process is registered under this broker's id."""


async def prepare_tree(session: Session, proposed_cluster_id: str) -> str:
    """Create missing persistent paths and return the cluster's id: the proposed one, if the store has none.

    ZnodeError: the cluster's id cannot be read.
    """
    paths = parents_of([*PERSISTENT_PATHS, CLUSTER_ID])
    found = await session.get_many(paths)
    missing = [path for path, znode in zip(paths, found, strict=True) if znode is None]
    if missing:
        cluster_id = encode_cluster_id(proposed_cluster_id)
        steps: list[list[Operation]] = [[Create(path, cluster_id if path == CLUSTER_ID else b"")] for path in missing]
        for outcome in await session.multi_all(steps):
            # Brokers that start together create the same paths.
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
                raise outcome
    data, _ = await session.get(CLUSTER_ID)
    try:
        return decode_cluster_id(data)
    except ZnodeError as error:
        raise ZnodeError(f"{CLUSTER_ID}: {error}") from error


async def generate_broker_id(session: Session, reserved_broker_max_id: int) -> int:
    """Return an unused broker id, for a broker without `broker.id`."""
    return (await session.set(BROKER_SEQUENCE_ID, b"")).version + reserved_broker_max_id


async def register_broker(session: Session, info: BrokerInfo, timestamp_ms: int, patience_s: float = 0.0) -> int:
    """Register a broker until its session ends; return its epoch, which grows with every registration.

    Wait up to `patience_s` for the end of another session's registration, which may be this broker's former process.
    BrokerIdInUseError: another process has this broker's id.
    """
    path = broker_id_path(info.broker_id)
    data = info.encode(timestamp_ms)
    deadline = trio.current_time() + patience_s
    is_waiting = False
    while True:
        try:
            result = await session.create(path, data, ephemeral=True)
            break
        except NodeExistsError:
            stat = await session.exists(path)
            if stat is not None and stat.ephemeral_owner == session.session_id:
                return stat.czxid
            if trio.current_time() >= deadline:
                raise BrokerIdInUseError(f"broker id {info.broker_id} is in use: another session owns {path}") from None
            if not is_waiting:
                logger.warning("Another session owns %s; waiting up to %.1f s for its end", path, patience_s)
            is_waiting = True
            await trio.sleep(_LOOK_AGAIN_AFTER_SECONDS)
    assert result.stat is not None
    places = ", ".join(each.connection_string for each in info.endpoints)
    logger.info("Registered broker %d at %s with %s and epoch %d", info.broker_id, path, places, result.stat.czxid)
    return result.stat.czxid


async def update_registration(session: Session, info: BrokerInfo, timestamp_ms: int) -> None:
    """Replace the data of a broker's registration; the broker keeps its epoch."""
    await session.set(broker_id_path(info.broker_id), info.encode(timestamp_ms))
