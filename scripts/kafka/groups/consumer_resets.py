"""kafka-consumer-groups --reset-offsets: the offsets of each scenario, and committing them.

Counterparts: ConsumerGroupCommand.resetOffsets, org.apache.kafka.tools.OffsetsUtils.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from ottla.client.admin.groups.committed_offsets import Committed, commit_offsets
from ottla.client.admin.groups.descriptions import DEAD, EMPTY
from ottla.client.admin.offsets import EARLIEST, LATEST
from ottla.client.cluster import Client
from ottla.scripts.kafka.face import Face, JavaError, as_java, execution
from ottla.scripts.kafka.flags import Parsed, print_usage_and_exit
from ottla.scripts.kafka.groups import consumer_flags as options
from ottla.scripts.kafka.groups.calls import call, committed_of, described, group_ids
from ottla.scripts.kafka.groups.offset_resets import (
    NewOffsets,
    check_partitions,
    current_offsets,
    in_hash_order,
    offsets_at,
    offsets_at_or_latest,
    offsets_in_range,
    partitions_to_reset,
    print_offsets,
    runtime,
    shifted_offsets,
)
from ottla.scripts.kafka.groups.reset_plans import exported, plan_of
from ottla.scripts.kafka.java.hashes import by_string_hash
from ottla.scripts.kafka.java.times import date_time_ms, duration_ms
from ottla.wire.errors import KafkaError
from ottla.wire.types import TopicPartition


async def reset(client: Client, parsed: Parsed, face: Face) -> None:
    """Reset the offsets of groups, or print the new ones only."""
    found = await described(client, await group_ids(client, parsed))
    results: dict[str, NewOffsets] = {}
    for group, description in found.items():
        if isinstance(description, JavaError):
            cause = description.cause
            if face.is_3_9 or cause is None or not cause.java_class.endswith(".GroupIdNotFoundException"):
                raise runtime(description)
        elif description.state not in (EMPTY, DEAD):
            face.print(
                f"\nError: Assignments can only be reset if the group '{group}' is inactive, but the current state is "
                f"{description.state}."
            )
            results[group] = {}
            continue
        results[group] = await _reset_group(client, parsed, face, group)
    ordered = {group: results[group] for group in by_string_hash(results)}
    if parsed.has("export"):
        face.print(exported(ordered, with_groups=len(parsed.values("group")) != 1))
    else:
        print_offsets(face, ordered)


async def _reset_group(client: Client, parsed: Parsed, face: Face, group: str) -> NewOffsets:
    """Return the new offsets of a group without members; with --execute also commit them."""
    try:
        partitions = await _scope(client, parsed, face, group)
    except JavaError as error:
        raise (runtime(error) if face.is_3_9 else error.cause or error) if _is_execution(error) else error from None
    if not face.is_3_9:
        await check_partitions(client, partitions)
    offsets = await _scenario(parsed, face)(client, parsed, face, group, partitions)
    if parsed.has("execute") and not parsed.has("dry-run") and offsets:
        wanted = {partition: Committed(offset) for partition, offset in offsets.items()}
        results = await call(client, "commitOffsets", commit_offsets(client, group, wanted))
        failed = [each for each in in_hash_order(results) if results[each] is not None]
        if (first := results[failed[0]] if failed else None) is not None:
            names = ", ".join(map(str, failed))
            text = f"Failed altering group offsets for the following partitions: [{names}]"
            refusal = as_java(KafkaError(first.code, text))
            raise runtime(execution(refusal)) if face.is_3_9 else refusal
    return offsets


def _is_execution(error: JavaError) -> bool:
    return error.java_class.endswith(".ExecutionException")


async def _scope(client: Client, parsed: Parsed, face: Face, group: str) -> list[TopicPartition]:
    if parsed.has("all-topics"):
        return in_hash_order(await committed_of(client, group))
    if parsed.has("topic"):
        return await call(client, "describeTopics", partitions_to_reset(client, parsed.values("topic")))
    if not parsed.has("from-file"):
        message = "One of the reset scopes should be defined: --all-topics, --topic."
        raise print_usage_and_exit(face, options.flags_of(face), message)
    return []


_Scenario = Callable[[Client, Parsed, Face, str, list[TopicPartition]], Awaitable[NewOffsets]]


def _scenario(parsed: Parsed, face: Face) -> _Scenario:
    for name, scenario in SCENARIOS.items():
        if parsed.has(name):
            return scenario
    names = ", ".join(f"[{name}]" for name in options.in_set_order(SCENARIOS))
    raise print_usage_and_exit(
        face, options.flags_of(face), f"Option '[reset-offsets]' requires one of the following scenarios: [{names}]"
    )


async def _to_offset(
    client: Client, parsed: Parsed, face: Face, _: str, partitions: list[TopicPartition]
) -> NewOffsets:
    offset = parsed.values("to-offset")[0]
    return await offsets_in_range(client, face, dict.fromkeys(partitions, offset))


async def _to_earliest(client: Client, _: Parsed, face: Face, __: str, partitions: list[TopicPartition]) -> NewOffsets:
    return await offsets_at(client, face, partitions, EARLIEST)


async def _to_latest(client: Client, _: Parsed, face: Face, __: str, partitions: list[TopicPartition]) -> NewOffsets:
    return await offsets_at(client, face, partitions, LATEST)


async def _shift_by(
    client: Client, parsed: Parsed, face: Face, group: str, partitions: list[TopicPartition]
) -> NewOffsets:
    return await shifted_offsets(client, face, partitions, await committed_of(client, group), parsed.value("shift-by"))


async def _to_datetime(
    client: Client, parsed: Parsed, face: Face, _: str, partitions: list[TopicPartition]
) -> NewOffsets:
    try:
        timestamp = date_time_ms(parsed.values("to-datetime")[0])
    except JavaError as error:
        raise runtime(error) from None
    return await offsets_at_or_latest(client, face, partitions, timestamp)


async def _by_duration(
    client: Client, parsed: Parsed, face: Face, _: str, partitions: list[TopicPartition]
) -> NewOffsets:
    duration = duration_ms(parsed.value("by-duration"))
    return await offsets_at_or_latest(client, face, partitions, time.time_ns() // 1_000_000 - duration)


async def _from_file(client: Client, parsed: Parsed, face: Face, group: str, _: list[TopicPartition]) -> NewOffsets:
    name = parsed.values("from-file")[0]
    try:
        text = Path(name).read_text("utf-8")
    except OSError:
        missing = JavaError("java.nio.file.NoSuchFileException", name)
        raise runtime(JavaError("java.io.IOException", f"Unable to read file {name}", missing)) from None
    try:
        plan, unfit = plan_of(text, parsed.values("group"))
    except JavaError as error:
        raise runtime(error) from None
    for line in unfit.trace() * 2 if unfit is not None else ():  # twice, because Kafka reads the file twice
        face.complain(line)
    if group not in plan:
        face.print(f"\nError: No reset plan for group {group} found")
        return {}
    return await offsets_in_range(client, face, plan[group])


async def _to_current(
    client: Client, _: Parsed, face: Face, group: str, partitions: list[TopicPartition]
) -> NewOffsets:
    return await current_offsets(client, face, partitions, await committed_of(client, group))


SCENARIOS: Final[Mapping[str, _Scenario]] = {
    "to-offset": _to_offset,
    "to-earliest": _to_earliest,
    "to-latest": _to_latest,
    "shift-by": _shift_by,
    "to-datetime": _to_datetime,
    "by-duration": _by_duration,
    "from-file": _from_file,
    "to-current": _to_current,
}
"""The scenarios in the order of their checks."""
