"""The examples do what they say, each by one command."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Broker
from tests.pipeline.spark_command import jar_folder, run_once
from tests.pipeline.test_running import consumed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


def test_they_do_what_they_say(bootstrap: str, tmp_path: Path) -> None:
    jars = jar_folder(tmp_path)

    def run(name: str, *more: str, **keys: str) -> None:
        overrides = [f"--override={key.replace('_', '.')}={value}" for key, value in keys.items()]
        job = (ROOT / "examples" / f"{name}.toml").relative_to(ROOT)
        command = run_once(job, jars, f"--checkpoint={tmp_path / name}", *more, *overrides)
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT)
        assert done.returncode == 0, done.stderr

    run("ingest-files", bootstrap_servers=bootstrap)
    orders = {json.loads(each.value())["id"]: each for each in consumed(bootstrap, "orders", 6)}
    assert sorted(orders) == [1, 2, 3, 4, 5, 6]
    assert orders[1].key() == b"ada"

    run("windowed-count", bootstrap_servers=bootstrap)
    counts = {each.key(): json.loads(each.value()) for each in consumed(bootstrap, "orders-by-customer", 5)}
    of_ada = [each for each in counts.values() if each["customer"] == "ada"]
    assert sorted((each["orders"], each["total"]) for each in of_ada) == [(1, 64.1), (2, 19.75)]

    # On a cluster of Spark, whose one executor is a process of its own.
    run(
        "topic-to-parquet",
        "--master=local-cluster[1,1,1024]",
        bootstrap_servers=bootstrap,
        sink_path=str(tmp_path / "out"),
    )
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(tmp_path / "out").to_pylist()
    assert sorted((row["id"], row["customer"]) for row in rows)[0] == (1, "ada")
    assert len(rows) == 6

    run("mirror", source_bootstrap_servers=bootstrap, sink_bootstrap_servers=bootstrap)
    copies = consumed(bootstrap, "there.orders", 6)
    assert {each.value() for each in copies} == {each.value() for each in orders.values()}
