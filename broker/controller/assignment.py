"""The brokers that hold new partitions.

PURE. Owns the spreading of replicas over brokers and racks, exactly as Kafka does it. Must not know topics; randomness
is a parameter.
Counterpart in Kafka: org.apache.kafka.admin.AdminUtils.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ottla.wire.errors import ErrorCode, KafkaError


class BrokerPlace(NamedTuple):
    """A live broker and its rack."""

    broker_id: int
    rack: str | None


def assign_replicas(
    brokers: Sequence[BrokerPlace],
    partitions: int,
    replication_factor: int,
    random_below: Callable[[int], int],
    first_partition: int = 0,
) -> dict[int, tuple[int, ...]]:
    """Return the brokers of each partition, the preferred leader first.

    The first replicas go round the brokers, beginning at a random one. The others follow at a distance that grows with
    each round, so that many brokers take over for one that fails. With racks, the round takes a broker of each rack in
    turn, and a partition has a second replica in a rack only when each rack has one.
    """
    if partitions <= 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    if replication_factor <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}.",
        )
    racks = {each.broker_id: each.rack for each in brokers}
    if any(racks.values()) and not all(racks.values()):
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Not all brokers have rack information for replica rack aware assignment.",
        )
    order = _alternate(brokers)
    count = len(order)
    # Without racks no rack has to be skipped.
    number_of_racks = len(set(racks.values())) if any(racks.values()) else 1
    start, shift = random_below(count), random_below(count)
    assignment = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        others = _others(first, shift * number_of_racks, count)
        assignment[partition] = _pick(order, first, others, replication_factor, racks, number_of_racks)
    return assignment


def _alternate(brokers: Sequence[BrokerPlace]) -> list[int]:
    """Return the brokers in turn from each rack; without racks, by their ids."""
    by_rack: dict[str, list[int]] = {}
    for each in sorted(brokers):
        by_rack.setdefault(each.rack or "", []).append(each.broker_id)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, queues))
    return [queue[place] for place in range(longest) for queue in queues if place < len(queue)]


def _others(first: int, shift: int, count: int) -> Iterator[int]:
    """Yield the places after the first replica's, endlessly."""
    step = 0
    while count > 1:
        yield (first + 1 + (shift + step) % (count - 1)) % count
        step += 1


def _pick(
    order: Sequence[int],
    first: int,
    others: Iterator[int],
    replication_factor: int,
    racks: dict[int, str | None],
    number_of_racks: int,
) -> tuple[int, ...]:
    replicas = [order[first]]
    used_racks = {racks[order[first]]}
    while len(replicas) < replication_factor:
        broker_id = order[next(others)]
        has_other_rack = len(used_racks) < number_of_racks
        if broker_id not in replicas and not (has_other_rack and racks[broker_id] in used_racks):
            replicas.append(broker_id)
            used_racks.add(racks[broker_id])
    return tuple(replicas)
