"""`ottla metadata`: exports and imports, and the one line of each refusal."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ottla.cli import main
from ottla.log.config import LogConfig
from ottla.log.manager import LogManager
from ottla.log.state.meta_properties import DirectoryLocks, read_meta_properties
from ottla.wire.records.batch import NewRecord, build_batch
from ottla.wire.types import TopicPartition
from ottla.zk.cluster_metadata import ClusterMetadata, PartitionMetadata
from ottla.zk.kraft_records import ConfigRecord
from ottla.zk.znodes import ReplicaAssignment
from tests.log.building import NOW_MS, produced
from tests.zk.test_cluster_metadata import cluster, topic
from tests.zk.test_kraft_records import PARTITION, TOPIC, framed

ID = b"1" * 16
KRAFT = "version=1\nnode.id=3\ncluster.id=c\n"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["metadata", *map(str, arguments)], env={})


def done(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("ottla: ")
    return line


def into(directory: Path) -> Sequence[str]:
    return "--override", f"log.dirs={directory}"


def document(path: Path, **given: Any) -> Path:
    path.write_bytes(cluster(**given).encode())
    return path


def exported(store: Path, path: Path) -> ClusterMetadata:
    done("export", path, *into(store))
    return ClusterMetadata.decode(path.read_bytes())


def kafkas(directory: Path, *partitions: TopicPartition, topic_id: bytes = ID) -> Path:
    """Write a log directory as a broker in ZooKeeper mode leaves it; return it."""
    logs = LogManager([directory], broker_id=3, cluster_id="c")
    for each in partitions:
        log = logs.get_or_create(each, topic_id, LogConfig(), NOW_MS)
        log.append_as_leader(produced(producer_id=8), 5, NOW_MS)
    logs.shutdown()
    return directory


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.name != ".lock"}


def test_a_document_goes_in_and_comes_out(tmp_path: Path) -> None:
    source = document(tmp_path / "in.json", broker_configs={"<default>": {"a": "ä"}}, next_producer_id=1000)
    assert done("import", source, *into(tmp_path / "a")) == (
        "imported cluster c: 1 topics new, 0 changed, 0 as they were\n"
    )
    assert exported(tmp_path / "a", tmp_path / "out.json") == ClusterMetadata.decode(source.read_bytes())
    assert json.loads((tmp_path / "out.json").read_bytes())["version"] == 1


def test_a_directory_in_zookeeper_mode_has_all_metadata_but_configs(tmp_path: Path) -> None:
    own = ("__consumer_offsets", "__transaction_state")
    names = ("plain", *own)
    directory = kafkas(tmp_path / "log", *(TopicPartition(name, index) for name in names for index in (0, 1)))
    remark = run("import", directory, *into(directory)).stderr
    assert remark == "ottla: a directory has no configs of topics: 1 topics keep those of the store, if any\n"
    found = exported(directory, tmp_path / "out.json")
    assert set(found.topics) == set(names)
    assert found.topics["plain"].topic_id == ID
    led = PartitionMetadata(ReplicaAssignment((3,)), 5, (3,))
    assert found.topics["plain"].partitions == {0: led, 1: led}
    assert found.topics["plain"].configs == {}
    assert all((found.topics[name].configs or {})["cleanup.policy"] == "compact" for name in own)
    # The next id is behind the whole block of the ids in the logs.
    assert found.next_producer_id == 1000


def test_the_directories_of_a_broker_count_together(tmp_path: Path) -> None:
    first, second = (kafkas(tmp_path / str(index), TopicPartition("t", index)) for index in (0, 1))
    both = ("--override", f"log.dirs={first},{second}")
    assert "there is no log of t-0" in refused("import", second, *into(tmp_path / "other"))
    done("import", second, *both)
    done("export", tmp_path / "out.json", *both)
    found = ClusterMetadata.decode((tmp_path / "out.json").read_bytes())
    assert set(found.topics["t"].partitions) == {0, 1}


@pytest.mark.parametrize("content", [b"", b"{}", b"\0" * 100, cluster().encode()[:-20]])
def test_a_file_without_metadata_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "in.json").write_bytes(content)
    assert f"{tmp_path / 'in.json'}: " in refused("import", tmp_path / "in.json", *into(tmp_path / "a"))
    assert not (tmp_path / "a").exists()


def test_a_directory_without_logs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "is no log directory" in refused("import", tmp_path / "empty", *into(tmp_path / "a"))


def test_kraft_metadata_that_is_damaged_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "log" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (folder.parent / "meta.properties").write_text(KRAFT)
    (folder / "00000000000000000001-0000000001.checkpoint").write_bytes(b"?" * 100)
    before = contents(folder.parent)
    assert "checkpoint" in refused("import", folder.parent, *into(folder.parent))
    assert contents(folder.parent) == before


def test_another_clusters_directory_is_refused(tmp_path: Path) -> None:
    directory = kafkas(tmp_path / "log", TopicPartition("t", 0))
    before = contents(directory)
    source = document(tmp_path / "in.json", cluster_id="another")
    line = refused("import", source, *into(directory))
    assert line.endswith(f"this is metadata of cluster another, {directory} is of cluster c")
    assert contents(directory) == before


def test_another_clusters_store_is_refused(tmp_path: Path) -> None:
    done("import", document(tmp_path / "in.json"), *into(tmp_path / "a"))
    other = document(tmp_path / "other.json", cluster_id="another")
    assert "this is metadata of cluster another, but the store has c" in refused("import", other, *into(tmp_path / "a"))


def test_a_topic_with_another_id_is_refused_even_with_overwrite(tmp_path: Path) -> None:
    done("import", document(tmp_path / "in.json"), *into(tmp_path / "a"))
    other = document(tmp_path / "other.json", topics={"t": topic(topic_id=ID), "new": topic()})
    line = refused("import", other, *into(tmp_path / "a"), "--overwrite")
    assert "topic t exists with the id AAAAAAAAAAAAAAAAAAAAAA, not MTExMTExMTExMTExMTExMQ" in line
    assert set(exported(tmp_path / "a", tmp_path / "out.json").topics) == {"t"}


def test_configs_that_differ_are_overwritten_on_demand(tmp_path: Path) -> None:
    done("import", document(tmp_path / "in.json"), *into(tmp_path / "a"))
    other = document(tmp_path / "other.json", topics={"t": topic(configs={"retention.ms": "1"})})
    assert "topic t exists with other configs: retention.ms" in refused("import", other, *into(tmp_path / "a"))
    assert "0 topics new, 1 changed" in done("import", other, *into(tmp_path / "a"), "--overwrite")
    assert exported(tmp_path / "a", tmp_path / "out.json").topics["t"].configs == {"retention.ms": "1"}


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    source = document(tmp_path / "in.json")
    locks = DirectoryLocks([tmp_path / "a"])
    try:
        for arguments in (("import", source), ("import", kafkas(tmp_path / "b")), ("export", tmp_path / "out.json")):
            assert refused(*arguments, *into(tmp_path / "a"))
        assert "in use by another broker" in refused("import", source, *into(tmp_path / "a"))
    finally:
        locks.release()
    assert not (tmp_path / "out.json").exists()


@pytest.mark.slow
def test_an_unreachable_zookeeper_is_refused_in_one_line(tmp_path: Path) -> None:
    arguments = ("export", tmp_path / "out.json", "--zookeeper", "127.0.0.1:1")
    command = [sys.executable, "-P", "-m", "ottla", "metadata", *map(str, arguments)]
    command += ["--override", "zookeeper.connection.timeout.ms=1000"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr == "ottla: Timed out waiting for connection to 127.0.0.1:1, of zookeeper.connect\n"


def test_an_export_without_a_store_is_refused(tmp_path: Path) -> None:
    assert "there is no cluster in " in refused("export", tmp_path / "out.json", *into(tmp_path / "a"))
    assert list(tmp_path.iterdir()) == []


def test_an_import_from_a_directory_with_a_store_is_refused(tmp_path: Path) -> None:
    directory = kafkas(tmp_path / "log", TopicPartition("t", 0))
    done("import", directory, *into(directory))
    assert "export its metadata" in refused("import", directory, *into(tmp_path / "a"))


def test_unknown_configs_are_left_out_and_known_configs_imported(tmp_path: Path) -> None:
    folder = tmp_path / "log" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (folder.parent / "meta.properties").write_text(KRAFT)
    configs = {"cleanup.policy": "compact", "of.the.future": "1", "remote.storage.enable": "true"}
    records = [
        TOPIC,
        PARTITION,
        *(ConfigRecord(resource_type=2, resource_name="t", name=key, value=each) for key, each in configs.items()),
    ]
    values = [NewRecord(value=framed(each)) for each in records]
    (folder / "00000000000000000000.log").write_bytes(build_batch(values))
    said = run("import", folder.parent, *into(folder.parent)).stderr.splitlines()
    assert [line.split(": ")[1:3] for line in said] == [
        ["not taken over", "of.the.future of topic t"],
        ["not taken over", "remote.storage.enable of topic t"],
    ]
    assert exported(folder.parent, tmp_path / "out.json").topics["t"].configs == {"cleanup.policy": "compact"}


def test_a_copy_in_kraft_mode_is_only_read(tmp_path: Path) -> None:
    folder = tmp_path / "log" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (folder.parent / "meta.properties").write_text(KRAFT)
    shutil.copytree(folder.parent, tmp_path / "copy")
    done("import", tmp_path / "copy", *into(tmp_path / "a"))
    assert (tmp_path / "copy" / "meta.properties").read_text() == KRAFT
    done("import", folder.parent, *into(folder.parent))
    found = read_meta_properties(folder.parent) or {}
    assert (found["version"], found["broker.id"], found["cluster.id"]) == ("0", "3", "c")


def test_an_import_from_a_file_takes_the_stores_directories_over_from_kraft(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    directory.mkdir()
    (directory / "meta.properties").write_text(KRAFT)
    done("import", document(tmp_path / "in.json"), *into(directory))
    assert (read_meta_properties(directory) or {})["version"] == "0"


def test_an_import_without_a_target_is_refused(tmp_path: Path) -> None:
    source = document(tmp_path / "in.json")
    reason = "ottla: no store to import into is named: give --data DIR, --zookeeper HOST:PORT, or the broker's file"
    for arguments in (
        (),
        ("--override", "num.partitions=3"),
        ("--override", "zookeeper.connect="),
    ):
        for each in (source, kafkas(tmp_path / "log")):
            assert refused("import", each, *arguments) == reason
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path / 'c'}\n")
    done("import", source, "--data", tmp_path / "a")
    done("import", source, "--override", f"log.dir={tmp_path / 'b'}")
    done("import", source, file)
    assert [exported(tmp_path / each, tmp_path / "out.json").cluster_id for each in "abc"] == ["c"] * 3


def test_an_export_without_a_source_is_of_the_broker_without_a_file(tmp_path: Path) -> None:
    done("import", document(tmp_path / "in.json"), "--data", tmp_path / "ottla")
    environ = {"XDG_DATA_HOME": str(tmp_path)}
    result = CliRunner().invoke(main, ["metadata", "export", str(tmp_path / "out.json")], env=environ)
    assert (result.exit_code, result.output) == (0, "exported 1 topics of cluster c\n")


def test_a_key_without_value_is_refused(tmp_path: Path) -> None:
    assert "--override takes KEY=VALUE" in refused("export", tmp_path / "out.json", "--override", "log.dirs")
