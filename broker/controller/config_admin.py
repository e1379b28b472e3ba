"""Changing configs: what clients ask for is checked, written, announced to all brokers, and in effect here.

Owns the rules that AlterConfigs and IncrementalAlterConfigs share. Must not know their messages. Any broker changes the
configs of topics; it need not be the controller. Counterparts in Kafka: ConfigAdminManager, ZkAdminManager.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import trio

from ottla.broker.clock import StartSoon
from ottla.broker.controller.config_changes import ConfigChanges
from ottla.broker.metadata_cache import MetadataCache
from ottla.broker.request_context import Deferred
from ottla.log.config import LogConfig
from ottla.wire.config_def import ConfigError
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.zk import znodes
from ottla.zk.store import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Create,
    NodeExistsError,
    NoNodeError,
    Session,
    SetData,
    StoreError,
)

logger = logging.getLogger("kafka.server.ZkAdminManager")

TOPIC: Final = 2
BROKER: Final = 4
_OTHERS: Final = {8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
# Kafka tells these as they are, and of other errors whose config it is too.
_PLAIN_ERRORS: Final = ("Unknown topic config name", "conflict topic config")


class Alteration(NamedTuple):
    """What somebody wants of one resource: `change` makes its new configs of the old ones, or raises KafkaError."""

    resource_type: int
    name: str
    keys: Sequence[str]
    nulls: Sequence[str]
    change: Callable[[Mapping[str, str]], Mapping[str, str]]


Outcomes = Sequence[KafkaError | None]


class ConfigAdmin:
    """Changes configs for clients."""

    def __init__(
        self,
        session: Session,
        start_soon: StartSoon,
        changes: ConfigChanges,
        *,
        metadata: MetadataCache,
        log_defaults: LogConfig,
        broker_id: int,
    ) -> None:
        self._session = session
        self._start_soon = start_soon
        self._changes = changes
        self._metadata = metadata
        self._log_defaults = log_defaults
        self._broker_id = broker_id
        self._turn = trio.Lock()

    def alter(self, wanted: Sequence[Alteration], *, validate_only: bool) -> Deferred[Outcomes]:
        """Change configs; the reply, an error or None for each, comes when the changes are kept and in effect here."""
        reply: Deferred[Outcomes] = Deferred(applied=False)
        self._start_soon(self._alter, wanted, validate_only, reply)
        return reply

    async def _alter(self, wanted: Sequence[Alteration], validate_only: bool, reply: Deferred[Outcomes]) -> None:
        counts = Counter((each.resource_type, each.name) for each in wanted)
        outcomes: list[KafkaError | None] = []
        async with self._turn:
            for each in wanted:
                try:
                    if counts[each.resource_type, each.name] > 1:
                        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
                    await self._alter_one(each, validate_only)
                    outcomes.append(None)
                except KafkaError as error:
                    outcomes.append(error)
                except StoreError as error:
                    outcomes.append(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
                except Exception:
                    logger.exception("A bug: the configs of %r could not be changed", each.name)
                    outcomes.append(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            try:
                await self._changes.catch_up()
            except StoreError as error:
                logger.warning("what was changed is not in effect yet: %s", error)
        reply.complete(outcomes)

    async def _alter_one(self, wanted: Alteration, validate_only: bool) -> None:
        if len(set(wanted.keys)) < len(wanted.keys):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        if wanted.nulls:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(wanted.nulls)}")
        if wanted.resource_type == TOPIC:
            await self._alter_topic(wanted, validate_only)
        elif wanted.resource_type == BROKER:
            self._check_broker(wanted)
        elif wanted.resource_type in _OTHERS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "AlterConfigs is only supported for topics and brokers, "
                f"but resource type is {_OTHERS[wanted.resource_type]}",
            )
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {wanted.resource_type}")

    def _check_broker(self, wanted: Alteration) -> None:
        """Refuse every change of a broker's configs: there are none that it could make while it runs."""
        if wanted.name:
            try:
                asked = int(wanted.name)
            except ValueError:
                fault = f"Node id must be an integer, but it is: {wanted.name}"
                raise KafkaError(ErrorCode.INVALID_REQUEST, fault) from None
            if asked != self._broker_id:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {self._broker_id}, but received {wanted.name}",
                )
        # Nothing is set: taking that away changes nothing.
        left = sorted(wanted.change({}))
        if left:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: Set({', '.join(left)})"
            )

    async def _alter_topic(self, wanted: Alteration, validate_only: bool) -> None:
        topic = wanted.name
        if not topic:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        if not self._metadata.contains(topic):
            raise _unknown(topic)
        path = znodes.topic_config_path(topic)
        while True:
            (found,) = await self._session.get_many([path])
            configs = wanted.change({} if found is None else znodes.decode_config(found[0]))
            self._check_topic(topic, configs)
            if validate_only:
                return
            data = znodes.encode_config(configs)
            try:
                await self._session.multi(
                    [
                        Check(znodes.topic_path(topic), ANY_VERSION),
                        Create(path, data) if found is None else SetData(path, data, found[1].version),
                        Create(
                            f"{znodes.CONFIG_CHANGES}/{znodes.CONFIG_CHANGE_PREFIX}",
                            znodes.encode_config_change(f"topics/{topic}"),
                            sequential=True,
                        ),
                    ]
                )
                return
            except (BadVersionError, NodeExistsError, NoNodeError) as error:
                if error.operation == 0:
                    raise _unknown(topic) from error
                # Another broker changed them meanwhile: once more.

    def _check_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        try:
            LogConfig.from_topic(configs, self._log_defaults)
        except ConfigError as error:
            text = str(error)
            if not text.startswith(_PLAIN_ERRORS):
                text = f"Invalid config value for resource ConfigResource(type=TOPIC, name='{topic}'): {text}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, text) from error


def _unknown(topic: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
