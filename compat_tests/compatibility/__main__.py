"""`python -m compat_tests.compatibility`: run all trials, write the results to build/, and write the page."""

import argparse
import importlib.metadata
import json
import sys
import time

from compat_tests.compatibility.catalogue import sections
from compat_tests.compatibility.clients import TREE
from compat_tests.compatibility.page import cells, written
from compat_tests.compatibility.running import Result, run_setting
from compat_tests.compatibility.settings import KINDS, SETTINGS
from compat_tests.compatibility.verdicts import DIFFERS
from compat_tests.support.brokers import KAFKA, ApacheKafka, Ottla, ZooKeeperKafka
from compat_tests.support.jars import ZOOKEEPER_BROKER

RESULTS = TREE / "build" / "compatibility.json"
PAGE = TREE / "docs" / "compatibility.md"
TITLES = {
    Ottla.name: importlib.metadata.version("ottla"),
    ApacheKafka.name: f"Apache Kafka {KAFKA.rpartition(':')[2]} (KRaft)",
    ZooKeeperKafka.name: f"Apache Kafka {ZOOKEEPER_BROKER.rpartition(':')[2]} (ZooKeeper)",
}


def main() -> int:
    """Run every trial and write the page, or only write it; return 1 if Ottla differs anywhere."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.compatibility", description=__doc__)
    parser.add_argument(
        "--from-results", action="store_true", help="write the page of the last run, without running trials"
    )
    arguments = parser.parse_args()
    all_sections = sections()
    if arguments.from_results:
        results = [Result(**each) for each in json.loads(RESULTS.read_text())]
    else:
        results = []
        for kind in KINDS:
            for setting in SETTINGS:
                began = time.monotonic()
                found = run_setting(all_sections, kind, setting)
                results += found
                seconds = time.monotonic() - began
                print(f"{kind.name}, {setting}: {len(found)} trials in {seconds:.0f} s", file=sys.stderr, flush=True)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps([each._asdict() for each in sorted(results)], indent=1, ensure_ascii=False))
    found_cells = cells(all_sections, results, TITLES)
    PAGE.write_text(written(all_sections, found_cells, TITLES))
    differing = {key: each.why for key, each in found_cells.items() if each.kind == DIFFERS}
    for (feature, client), why in differing.items():
        print(f"{client} differs: {feature}: {why}", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
