import shutil
from pathlib import Path

from ottla.broker.handlers import describe_log_dirs
from ottla.wire.api_keys import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ottla.wire.records.batch import validate_produced
from tests.broker.support.hosted import NOW_MS, TOPIC, House, batch, context


def send(house: House, *asked: tuple[str, int], version: int = 4, everything: bool = False) -> DescribeLogDirsResult:
    topics = [DescribableLogDirTopic(topic=topic, partitions=[index]) for topic, index in asked]
    response = describe_log_dirs.handle(
        DescribeLogDirsRequest(topics=None if everything else topics),
        context(ApiKey.DESCRIBE_LOG_DIRS, version),
        logs=house.logs,
        replicas=house.replicas,
    )
    (result,) = DescribeLogDirsResponse.decode(response.encode(version), version).results
    return result


def found(result: DescribeLogDirsResult) -> list[tuple[str, int, int, int, bool]]:
    return [
        (topic.name, each.partition_index, each.partition_size, each.offset_lag, each.is_future_key)
        for topic in result.topics
        for each in topic.partitions
    ]


def test_the_response_has_all_replicas_with_their_sizes(house: House) -> None:
    partition = house.replicas.partition(TOPIC, 1)
    records = batch(b"a", b"b")
    produced = validate_produced(records, api_version=9, rules=partition.rules, now_ms=NOW_MS)
    house.replicas.append(partition, produced, 1, NOW_MS)
    house.lead("other")
    for version in (1, 2, 3, 4):
        told = send(house, version=version, everything=True)
        assert (told.error_code, told.log_dir) == (0, str(house.path))
        assert found(told) == [(TOPIC, 0, 0, 0, False), (TOPIC, 1, len(records), 0, False), ("other", 0, 0, 0, False)]


def test_the_response_has_only_requested_replicas_and_leaves_out_unknown_ones(house: House) -> None:
    assert found(send(house, (TOPIC, 1), (TOPIC, 9), ("nowhere", 0))) == [(TOPIC, 1, 0, 0, False)]
    assert found(send(house)) == []


def test_the_response_has_the_volume_from_version_4_on(house: House) -> None:
    volume = shutil.disk_usage(house.path)
    told = send(house)
    assert told.total_bytes == volume.total
    assert 0 < told.usable_bytes <= volume.total
    assert (send(house, version=3).total_bytes, send(house, version=3).usable_bytes) == (-1, -1)


def test_the_lag_of_a_replica_that_is_not_served_is_not_known(house: House) -> None:
    house.replicas.partition(TOPIC, 0).make_offline()
    del house.replicas.partitions[TOPIC, 1]
    assert found(send(house, everything=True)) == [(TOPIC, 0, 0, -1, False), (TOPIC, 1, 0, -1, False)]


def test_a_directory_that_is_gone_is_an_error_of_its_own(house: House, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    house.logs.directories.append(gone)
    request = DescribeLogDirsRequest(topics=None)
    told = describe_log_dirs.handle(
        request, context(ApiKey.DESCRIBE_LOG_DIRS, 4), logs=house.logs, replicas=house.replicas
    )
    house.logs.directories.remove(gone)
    assert [(each.error_code, each.log_dir, bool(each.topics)) for each in told.results] == [
        (ErrorCode.NONE, str(house.path), True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, str(gone), False),
    ]


def test_an_error_of_the_whole_request_comes_alone() -> None:
    failed = describe_log_dirs.error_response(DescribeLogDirsRequest(topics=None), 4, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (failed.error_code, failed.results) == (-1, ())
