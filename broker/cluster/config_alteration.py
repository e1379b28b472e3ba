"""Changes of configs for clients: checked, written, announced to all brokers, and in effect here.

Owns the rules that AlterConfigs and IncrementalAlterConfigs share. Must not know their messages. Every broker changes
the configs of topics and of all brokers, not only the controller. The configs and loggers of one broker are changed by
that broker only. Counterparts in Kafka: ConfigAdminManager, ZkAdminManager, RuntimeLoggerManager.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import trio

from ottla.broker.cluster.config_description import Resource, broker_id_of, topic_config
from ottla.broker.cluster.config_notifications import ConfigChanges
from ottla.broker.cluster.metadata_cache import MetadataCache
from ottla.broker.cluster.topic_names import check_name
from ottla.broker.cluster.unreadable_znodes import read_or_pass_over
from ottla.broker.config import log_levels as loggers
from ottla.broker.config.dynamic import DynamicConfig
from ottla.broker.loop.clock import StartSoon
from ottla.broker.loop.deferred import Deferred
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

Configs = Mapping[str, str]


class Alteration(NamedTuple):
    """A change of one resource: `change` returns the new configs made of the old ones, or raises KafkaError."""

    resource_type: int
    name: str
    keys: Sequence[str]
    nulls: Sequence[str]
    change: Callable[[Configs], Configs]


class Altered(NamedTuple):
    """The outcome for one resource, with the fields of both responses."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


def altered(resource_type: int, name: str, error: KafkaError | None) -> Altered:
    """Return the outcome for one resource."""
    if error is None:
        return Altered(ErrorCode.NONE, None, resource_type, name)
    return Altered(error.code, error.detail or None, resource_type, name)


class ConfigAdmin:
    """Changes configs for clients."""

    def __init__(
        self,
        session: Session,
        start_soon: StartSoon,
        changes: ConfigChanges,
        *,
        metadata: MetadataCache,
        dynamic: DynamicConfig,
        broker_id: int,
    ) -> None:
        self._session = session
        self._start_soon = start_soon
        self._changes = changes
        self._metadata = metadata
        self._dynamic = dynamic
        self._broker_id = broker_id
        self._turn = trio.Lock()

    def alter(self, wanted: Sequence[Alteration], *, validate_only: bool) -> Deferred[Sequence[Altered]]:
        """Change configs; return the outcomes, which come when the changes are written and in effect here."""
        reply: Deferred[Sequence[Altered]] = Deferred(applied=False)

        async def carry_out() -> None:
            errors = await self._alter(wanted, validate_only)
            pairs = zip(wanted, errors, strict=True)
            reply.complete([altered(each.resource_type, each.name, error) for each, error in pairs])

        self._start_soon(carry_out)
        return reply

    async def _alter(self, wanted: Sequence[Alteration], validate_only: bool) -> list[KafkaError | None]:
        counts = Counter((each.resource_type, each.name) for each in wanted)
        errors: list[KafkaError | None] = []
        async with self._turn:
            for each in wanted:
                try:
                    if counts[each.resource_type, each.name] > 1:
                        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
                    await self._alter_one(each, validate_only)
                    errors.append(None)
                except KafkaError as error:
                    errors.append(error)
                except StoreError as error:
                    errors.append(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
                except Exception:
                    logger.exception("A bug: the configs of %r could not be changed", each.name)
                    errors.append(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            try:
                await self._changes.catch_up()
            except StoreError as error:
                logger.warning("Changed configs are written, and come into effect later: %s", error)
        return errors

    async def _alter_one(self, wanted: Alteration, validate_only: bool) -> None:
        if len(set(wanted.keys)) < len(wanted.keys):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        if wanted.nulls:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(wanted.nulls)}")
        match wanted.resource_type:
            case Resource.TOPIC:
                await self._alter_topic(wanted, validate_only)
            case Resource.BROKER:
                await self._alter_broker(wanted, validate_only)
            case Resource.BROKER_LOGGER:
                self._alter_loggers(wanted, validate_only)
            case Resource.CLIENT_METRICS | Resource.GROUP as kind:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "AlterConfigs is only supported for topics and brokers, "
                    f"but resource type is {Resource(kind).name}",
                )
            case kind:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")

    async def _alter_topic(self, wanted: Alteration, validate_only: bool) -> None:
        topic = wanted.name
        if not topic:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_name(topic)
        if not self._metadata.contains(topic):
            # As in Kafka, an operation that a config does not have is the first error.
            wanted.change({})
            raise _unknown(topic)

        def change(old: Configs) -> Configs:
            new = wanted.change(old)
            topic_config(new, self._dynamic)
            return new

        try:
            guard = Check(znodes.topic_path(topic), ANY_VERSION)
            path = znodes.topic_config_path(topic)
            await self._write(path, f"topics/{topic}", change, [guard], validate_only=validate_only)
        except NoNodeError as error:
            raise _unknown(topic) from error

    async def _alter_broker(self, wanted: Alteration, validate_only: bool) -> None:
        per_broker = bool(wanted.name)
        if per_broker and broker_id_of(wanted.name, "Node") != self._broker_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._broker_id}, but received {wanted.name}",
            )
        entity = str(self._broker_id) if per_broker else znodes.DEFAULT_ENTITY

        def change(old: Configs) -> Configs:
            new = wanted.change(self._dynamic.usable(old, per_broker=per_broker))
            try:
                self._dynamic.check(new, per_broker=per_broker)
            except ConfigError as error:
                raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
            return new

        path = znodes.broker_config_path(entity)
        await self._write(path, f"brokers/{entity}", change, [], validate_only=validate_only)

    def _alter_loggers(self, wanted: Alteration, validate_only: bool) -> None:
        """Set the levels of loggers, which are not stored and end with the process."""
        if broker_id_of(wanted.name, "Node") != self._broker_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected node id. Expected {self._broker_id}, but received {wanted.name}",
            )
        # `change` has checked the levels one after the other.
        levels = wanted.change({})
        if not validate_only:
            for name in wanted.keys:
                loggers.set_level(name, levels.get(name))

    async def _write(
        self,
        path: str,
        entity: str,
        change: Callable[[Configs], Configs],
        guards: Sequence[Check],
        *,
        validate_only: bool,
    ) -> None:
        """Write changed configs and their notification; NoNodeError if the znode of a guard is gone."""
        while True:
            (found,) = await self._session.get_many([path])
            old = None if found is None else read_or_pass_over(path, znodes.decode_config, found[0])
            configs = change(old or {})
            if validate_only:
                return
            data = znodes.encode_config(configs)
            try:
                await self._session.multi(
                    [
                        *guards,
                        Create(path, data) if found is None else SetData(path, data, found[1].version),
                        Create(
                            f"{znodes.CONFIG_CHANGES}/{znodes.CONFIG_CHANGE_PREFIX}",
                            znodes.encode_config_change(entity),
                            sequential=True,
                        ),
                    ]
                )
                return
            except (BadVersionError, NodeExistsError, NoNodeError) as error:
                if error.operation < len(guards):
                    raise
                # Another broker changed the configs meanwhile: try again.


def _unknown(topic: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
