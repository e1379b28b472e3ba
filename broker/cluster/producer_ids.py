"""Producer ids, each given to one producer of the cluster only.

Owns the blocks of ids that this broker has claimed; the next is claimed before the last is used up. The store has the
claim before the first id of a block is given: a kill loses the rest of the block, and no id is given twice. Must not
know who needs ids. Counterpart in Kafka: ZkProducerIdManager.
"""

import logging
from collections import deque
from typing import Final

import trio

from ottla.broker.loop.clock import StartSoon
from ottla.broker.loop.deferred import Deferred
from ottla.broker.loop.hindrance import Hindrance
from ottla.wire.types import MAX_INT64
from ottla.zk.store import BadVersionError, Session, StoreError
from ottla.zk.strict_json import ZnodeError
from ottla.zk.znodes import PRODUCER_ID_BLOCK, ProducerIdBlock

logger = logging.getLogger("kafka.coordinator.transaction.ZkProducerIdManager")

_BLOCK_SIZE: Final = 1000
# The next block is claimed when this many ids are left.
_LOW: Final = _BLOCK_SIZE // 10
_RETRY_AFTER_SECONDS: Final = 0.1


class ProducerIds:
    """The ids that this broker may give."""

    def __init__(self, session: Session, broker_id: int, start_soon: StartSoon) -> None:
        self._session = session
        self._broker_id = broker_id
        self._start_soon = start_soon
        self._blocks: deque[range] = deque()
        self._waiting: deque[Deferred[int]] = deque()
        self._is_claiming = False

    def next(self) -> int | Deferred[int]:
        """Return an id, later if none is left until the next block is claimed."""
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
        if not self._is_claiming:
            self._is_claiming = True
            self._start_soon(self._claim)

    async def _claim(self) -> None:
        hindrance = Hindrance(logger, "A block of producer ids", "could not be claimed, trying again", "is claimed")
        try:
            while True:
                try:
                    self._blocks.append(await claim_block(self._session, self._broker_id))
                    hindrance.passed()
                    break
                except StoreError as error:
                    hindrance.met(str(error))
                    await trio.sleep(_RETRY_AFTER_SECONDS)
        finally:
            self._is_claiming = False
        while self._waiting and self._blocks:
            reply = self._waiting.popleft()
            if not reply.done:
                reply.complete(self._take())
        if self._waiting:
            self._refill()


async def claim_block(session: Session, broker_id: int) -> range:
    """Claim the next block for a broker, and return it; StoreError if the store fails or no ids are left."""
    while True:
        data, stat = await session.get(PRODUCER_ID_BLOCK)
        try:
            first = ProducerIdBlock.decode(data).last + 1 if data else 0
        except ZnodeError as error:
            raise StoreError(f"{PRODUCER_ID_BLOCK}: {error}") from error
        if first > MAX_INT64 - _BLOCK_SIZE:
            raise StoreError("all producer ids of the cluster are used up")
        block = ProducerIdBlock(broker_id, first, first + _BLOCK_SIZE - 1)
        try:
            await session.set(PRODUCER_ID_BLOCK, block.encode(), stat.version)
        except BadVersionError:
            # Another broker was faster.
            continue
        return range(block.first, block.last + 1)
