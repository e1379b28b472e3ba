"""A broker that stops asks the controller to move its leadership, and does not wait forever."""

import trio
import trio.testing

from ottla.broker.cluster.controlled_shutdown import hand_over
from ottla.broker.config.broker_config import BROKER_CONFIG
from ottla.wire.schema import Request, Response

VALUES = BROKER_CONFIG.parse_all({})


async def test_a_controller_that_does_not_respond_is_asked_three_times(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The controller may be in this process and wait for its store; no socket limits the time."""
    asked = 0

    async def never(request: Request) -> Response:
        nonlocal asked
        asked += 1
        await trio.sleep_forever()
        raise AssertionError

    began = trio.current_time()
    await hand_over(never, 1, 2, VALUES)
    assert asked == 3
    assert trio.current_time() - began == 3 * 30 + 2 * 5
