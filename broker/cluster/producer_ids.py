"""Producer ids that no producer of the cluster ever got before.

Owns the block that this broker has taken for itself; the next one is taken before it is used up. A block is handed out
from only when the store has kept that it is taken: after a kill the rest of it is lost, none is given twice.
Must not know who asks. Counterpart in Kafka: ZkProducerIdManager.
"""

import logging
from collections import deque
from typing import Final

import trio

from ottla.broker.loop.clock import StartSoon
from ottla.broker.loop.deferred import Deferred
from ottla.wire.types import MAX_INT64
from ottla.zk.store import BadVersionError, Session, StoreError
from ottla.zk.strict_json import ZnodeError
from ottla.zk.znodes import PRODUCER_ID_BLOCK, ProducerIdBlock

logger = logging.getLogger("kafka.coordinator.transaction.ZkProducerIdManager")

_BLOCK_SIZE: Final = 1000
# The next block is taken when so few ids are left.
_LOW: Final = _BLOCK_SIZE // 10
_RETRY_AFTER_SECONDS: Final = 0.1


class ProducerIds:
    """The ids that this broker may hand out."""

    def __init__(self, session: Session, broker_id: int, start_soon: StartSoon) -> None:
        self._session = session
        self._broker_id = broker_id
        self._start_soon = start_soon
        self._blocks: deque[range] = deque()
        self._waiting: deque[Deferred[int]] = deque()
        self._is_taking = False

    def next(self) -> int | Deferred[int]:
        """Return an id, or one that comes when there are any again."""
        if self._blocks:
            return self._take()
        reply: Deferred[int] = Deferred(applied=False)
        self._waiting.append(reply)
        self._refill()
        return reply

    def _take(self) -> int:
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        if sum(map(len, self._blocks)) <= _LOW:
            self._refill()
        return block[0]

    def _refill(self) -> None:
        if not self._is_taking:
            self._is_taking = True
            self._start_soon(self._take_block)

    async def _take_block(self) -> None:
        told = ""
        try:
            while True:
                try:
                    self._blocks.append(await claim_block(self._session, self._broker_id))
                    break
                except StoreError as error:
                    # What is in the way may stay there for long; it is told once.
                    if told != str(error):
                        logger.warning("no producer ids could be taken: %s", error)
                    told = str(error)
                    await trio.sleep(_RETRY_AFTER_SECONDS)
        finally:
            self._is_taking = False
        while self._waiting and self._blocks:
            reply = self._waiting.popleft()
            if not reply.done:
                reply.complete(self._take())
        if self._waiting:
            self._refill()


async def claim_block(session: Session, broker_id: int) -> range:
    """Write that the block after the last one is this broker's, and return it; StoreError where that cannot be."""
    while True:
        data, stat = await session.get(PRODUCER_ID_BLOCK)
        try:
            first = ProducerIdBlock.decode(data).last + 1 if data else 0
        except ZnodeError as error:
            raise StoreError(f"{PRODUCER_ID_BLOCK}: {error}") from error
        if first > MAX_INT64 - _BLOCK_SIZE:
            raise StoreError("the cluster has used up all producer ids")
        block = ProducerIdBlock(broker_id, first, first + _BLOCK_SIZE - 1)
        try:
            await session.set(PRODUCER_ID_BLOCK, block.encode(), stat.version)
        except BadVersionError:
            # Another broker was faster.
            continue
        return range(block.first, block.last + 1)
