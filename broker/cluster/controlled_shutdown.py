"""Controlled shutdown: move leadership away before the broker stops, with retries.

Owns the retries. Must not know how leadership moves. Counterpart in Kafka: KafkaServer.controlledShutdown.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ottla.wire.schema import Request, Response

logger = logging.getLogger("kafka.server.KafkaServer")

Ask = Callable[[Request], Awaitable[Response]]


async def hand_over(ask_controller: Ask, broker_id: int, broker_epoch: int, values: Mapping[str, Any]) -> None:
    """Ask the controller until this broker leads nothing any more, at most `controlled.shutdown.max.retries` times."""
    if not values["controlled.shutdown.enable"]:
        return
    logger.info("[KafkaServer id=%d] Starting controlled shutdown", broker_id)
    request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch)
    for retries_left in range(values["controlled.shutdown.max.retries"] - 1, -1, -1):
        try:
            # This broker may be the controller itself, so that no socket limits the time.
            with trio.fail_after(values["controller.socket.timeout.ms"] / 1000):
                reason = _why_not_yet(await ask_controller(request))
        except trio.TooSlowError:
            reason = "The controller did not respond"
        except OSError as error:
            reason = str(error)
        if reason is None:
            logger.info("[KafkaServer id=%d] Controlled shutdown request returned successfully", broker_id)
            return
        logger.warning("[KafkaServer id=%d] %s; trying %d more times", broker_id, reason, retries_left)
        if retries_left:
            await trio.sleep(values["controlled.shutdown.retry.backoff.ms"] / 1000)
    logger.warning("[KafkaServer id=%d] Stopping, though this broker still leads partitions", broker_id)


def _why_not_yet(response: Response) -> str | None:
    assert isinstance(response, ControlledShutdownResponse)
    if response.error_code != ErrorCode.NONE:
        return f"The controller responded {ErrorCode(response.error_code).name}"
    remaining = [f"{each.topic_name}-{each.partition_index}" for each in response.remaining_partitions]
    return f"Still leading {', '.join(remaining)}" if remaining else None
