"""The topics that a mirror copies into: as many partitions as the copied ones, and configs that keep records as long.

Owns which configs are copied, and when a copy is refused. Must not know records. Counterparts in Kafka: createNewTopics
and syncTopicConfigs of MirrorSourceConnector, DefaultConfigPropertyFilter.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from ottla.pipeline.positions import Config, Positions, UnreachableError

logger = logging.getLogger(__name__)

Configs = Mapping[str, Config]
# Sets configs, or with None unsets them; returns why that is refused, if it is.
Alter = Callable[[Mapping[str, str | None]], str | None]

_POLICY: Final = "cleanup.policy"
_RETENTIONS: Final = ("retention.ms", "retention.bytes")
# Copied even where the source has them from its broker's defaults, because they say when records are deleted.
_KEPT: Final = (_POLICY, *_RETENTIONS)
# MirrorMaker leaves these out: they are about the cluster's own brokers, would change timestamps or refuse old ones.
_LEFT_OUT: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)


class CopiedTopics:
    """The copies of one mirror: `prefix` stands before the name of a copied topic."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._told: set[tuple[str, str, str]] = set()

    def prepare(self, theirs: Positions, ours: Positions, topics: Iterable[str]) -> None:
        """Create or widen the copies of some topics, and copy their configs.

        Raise UnreachableError where a copy would lose records that its source keeps.
        """
        counts = Counter(topic for topic, _ in theirs.partitions(sorted(topics)))
        for topic, count in counts.items():
            ours.create(self._prefix + topic, count)
            ours.widen(self._prefix + topic, count)
        copies = ours.configs([self._prefix + topic for topic in counts])
        for topic, source in theirs.configs(counts).items():
            self._copy_configs(ours, source, self._prefix + topic, copies[self._prefix + topic])

    def _copy_configs(self, ours: Positions, source: Configs, copy: str, target: Configs) -> None:
        refused, loss = take_over(source, target, partial(ours.alter_configs, copy))
        if loss is not None:
            reasons = "".join(f"; {key} is refused: {refused[key]}" for key in _KEPT if key in refused)
            raise UnreachableError(f"{ours.bootstrap}: {copy} would lose records that are copied: {loss}{reasons}")
        for key, answer in refused.items():
            if (copy, key, answer) not in self._told:
                self._told.add((copy, key, answer))
                logger.warning("%s refuses %s for %s, which goes on without: %s", ours.bootstrap, key, copy, answer)


def take_over(source: Configs, target: Configs, alter: Alter) -> tuple[dict[str, str], str | None]:
    """Set a source's configs on its copy; return which were refused and why, and why the copy would lose records."""
    wanted = changes(source, target)
    if not wanted:
        return {}, loses(source, target)
    refused: dict[str, str] = {}
    if alter(wanted) is not None:
        # A broker takes all of them or none.
        answers = {key: alter({key: value}) for key, value in wanted.items()}
        refused = {key: answer for key, answer in answers.items() if answer is not None}
    taken = {key: value for key, value in wanted.items() if key not in refused and value is not None}
    return refused, loses(source, {**target, **{key: Config(value, is_own=True) for key, value in taken.items()}})


def changes(source: Configs, target: Configs) -> dict[str, str | None]:
    """Return what is to be set on a copy, and as None what its topic no longer has."""
    wanted = {key: each.value for key, each in source.items() if each.is_own or key in _KEPT}
    found: dict[str, str | None] = {
        key: value for key, value in wanted.items() if key not in target or target[key].value != value
    }
    found |= {key: None for key, each in target.items() if each.is_own and key not in wanted}
    return {key: value for key, value in found.items() if key not in _LEFT_OUT}


def loses(source: Configs, target: Configs) -> str | None:
    """Return why a copy would lose records that its source keeps; None where it does not."""
    if "compact" in _policies(target) and "compact" not in _policies(source):
        return _difference(_POLICY, source, target)
    for key in _RETENTIONS:
        if _limit(target, key) < _limit(source, key):
            return _difference(key, source, target)
    return None


def _policies(configs: Configs) -> list[str]:
    return [each.strip() for each in configs[_POLICY].value.split(",")]


def _limit(configs: Configs, key: str) -> float:
    """How much is kept, in milliseconds or bytes."""
    limit = int(configs[key].value)
    return limit if limit >= 0 and "delete" in _policies(configs) else math.inf


def _difference(key: str, source: Configs, target: Configs) -> str:
    keys = dict.fromkeys((_POLICY, key))
    there, here = (", ".join(f"{each}={of[each].value}" for each in keys) for of in (source, target))
    return f"it has {here}, its source {there}"
