"""Plans for `ottla groups reset` and `delete-offsets`: the change of each partition of each group.

Must not know how a plan is carried out.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from ottla.client.admin.groups.committed_offsets import Committed, Offsets
from ottla.client.admin.groups.offset_changes import Change
from ottla.client.cluster import Client
from ottla.scripts.terminal.offsets.resets import Plan, resettable
from ottla.scripts.terminal.offsets.targets import Mode, chosen_targets, offsets_of
from ottla.scripts.terminal.partitions import Chosen, find_partitions
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.types import TopicPartition


async def reset_plan(client: Client, groups: Iterable[str], wanted: Sequence[Chosen], mode: Mode) -> Plan:
    """Return the changes of groups in a mode: of the wanted partitions, or of all."""
    named = await find_partitions(client, wanted) if wanted else {}
    missing = {each: error for each, error in named.items() if isinstance(error, KafkaError)}
    plan = Plan()
    for group, committed in await resettable(client, list(dict.fromkeys(groups)), plan):
        for partition, error in missing.items():
            plan.refuse(group, partition, error)
        partitions = [each for each in named if each not in missing]
        if not wanted:
            partitions = await _own(client, group, committed, mode)
        if not named and not partitions:
            plan.refuse(group, None, _absent("it has no offsets yet: give --topic"))
        for partition, target in (await chosen_targets(client, mode, group, committed, partitions)).items():
            if isinstance(target, KafkaError):
                plan.refuse(group, partition, target)
                continue
            before = committed.get(partition)
            # An unchanged offset keeps its metadata, too.
            stays = before is not None and before.offset == target
            plan.set(group, partition, Change(before, before if stays else Committed(target)))
    return plan


async def _own(client: Client, group: str, committed: Offsets, mode: Mode) -> list[TopicPartition]:
    return list(committed if mode.partitions is None else await mode.partitions(client, group))


def _absent(text: str) -> KafkaError:
    return KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)


async def deletion_plan(client: Client, group: str, wanted: Sequence[Chosen]) -> Plan:
    """Return the deletion of committed offsets, also of deleted topics."""
    committed = await offsets_of(client, group)
    plan = Plan()
    for topic, numbers in wanted:
        of_topic = [each for each in committed if fnmatchcase(each.topic, topic)]
        found = [each for each in of_topic if numbers is None or each.partition in numbers]
        if not found:
            plan.refuse(group, None, _absent(f"it has no such offsets of {topic}"))
        for each in found:
            plan.set(group, each, Change(committed[each], None))
    return plan
