"""`make compare REF=commit`: the cost of a change, as processor time of a request, compared with an earlier commit.

Two checkouts, the current one and that of the commit, are compiled and run in turn by the same Python. Each round
starts a fresh broker of both, because differences between processes (addresses, hashes) must be part of the spread.
A row's verdict is the interval of the median of all rounds' ratios: a change is "within n%" unless the whole interval
is beyond.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.groups import offset_commits
from benchmarks.measuring import CONFIDENCE, median_interval
from benchmarks.workloads import Load, raw_fetch, raw_produce
from compat_tests.support.brokers import Ottla

ROUNDS: Final = 10
SECONDS: Final = 2.0
# A warm-up, because codecs are compiled at first use, and new topics create their files.
FIRST_SECONDS: Final = 0.3
HERE: Final = Path(__file__).parent.parent

LOADS: Final[Mapping[str, Load]] = {
    "produce, 1 x 100 B, 1 connection x 1": raw_produce(1, 1, 1),
    "produce, 1 x 100 B, 32 connections x 5": raw_produce(1, 32, 5),
    "produce, 16 KB of 100 B, 4 x 5": raw_produce(145, 4, 5),
    "fetch, 1 MiB, 4 x 2": raw_fetch(1 << 20),
    "fetch, 16 KiB, 4 x 2": raw_fetch(1 << 14),
    "offset commits, 32 connections x 5": offset_commits,
}


class Checkout(Ottla):
    """Ottla from a checkout, on fresh data."""

    def __init__(self, root: Path, folder: Path) -> None:
        super().__init__(Path(tempfile.mkdtemp(dir=folder)))
        self.root = root

    def command(self) -> list[str]:
        """Return the broker's command line, which imports modules from the checkout first."""
        return ["env", f"PYTHONPATH={self.root}", *super().command()]


def check_out(ref: str, folder: Path) -> Path:
    """Write the tree of a commit into a folder."""
    root = folder / "ref"
    root.mkdir()
    archive = subprocess.run(["git", "archive", ref], cwd=HERE, capture_output=True, check=False)
    if archive.returncode:
        sys.exit(archive.stderr.decode().strip())
    subprocess.run(["tar", "-x", "-C", root], input=archive.stdout, check=True)
    return root


def compile_hot_path(root: Path) -> None:
    """Compile the hot path of a checkout; exit if that fails, because users do not run the plain form."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-P", "-m", "ottla.build_native"], env=environment, cwd=root, check=False)
    if done.returncode:
        sys.exit(f"the hot path of {root} could not be compiled")


def one_round(
    roots: Sequence[Path], loads: Mapping[str, Load], folder: Path, *, backwards: bool
) -> Iterator[tuple[str, float, float]]:
    """Run each load on a fresh broker of both checkouts; yield its name and the cost of a request in each."""
    with contextlib.ExitStack() as stack:
        brokers = [Checkout(root, folder) for root in roots]
        for broker in brokers:
            broker.start()
            stack.callback(broker.stop)
        for name, load in loads.items():
            costs: dict[Path, float] = {}
            for broker in reversed(brokers) if backwards else brokers:
                load(broker, FIRST_SECONDS)
                cost = load(broker, SECONDS).cpu_us
                assert cost is not None
                costs[broker.root] = cost
            before, after = (costs[root] for root in roots)
            yield name, before, after


def report(ratios: Mapping[str, Sequence[float]], within: float | None) -> tuple[list[str], bool]:
    """Return the lines of the table, and whether no interval lies wholly beyond `within`."""
    lines = [f"ratio of CPU a request, median and its {CONFIDENCE:.0%} interval:"]
    all_within = True
    for name, found in ratios.items():
        interval = median_interval(found)
        verdict = ""
        if within is not None:
            is_within = interval.low <= 1 + within / 100
            all_within &= is_within
            verdict = f"  within {within:g}%: {'yes' if is_within else 'no'}"
        lines.append(f"{name:42} {interval.median:.3f}  [{interval.low:.3f}, {interval.high:.3f}]{verdict}")
    return lines, all_within


def main() -> None:
    """Compare the checkouts, and print a row for each load."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("ref", help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often both are measured")
    parser.add_argument("--only", default="", help="only loads whose name contains this")
    parser.add_argument(
        "--within", type=float, default=None, help="per cent: exit 1 if a load's whole interval is beyond"
    )
    arguments = parser.parse_args()
    loads = {name: load for name, load in LOADS.items() if arguments.only in name}
    ratios: dict[str, list[float]] = {name: [] for name in loads}
    with tempfile.TemporaryDirectory(prefix="compare-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        roots = [check_out(arguments.ref, folder), HERE]
        for root in roots:
            compile_hot_path(root)
        for number in range(arguments.rounds):
            for name, before, after in one_round(roots, loads, folder, backwards=number % 2 == 1):
                ratios[name].append(after / before)
                print(f"{number + 1:3} {name:42} {before:9.2f} -> {after:9.2f} us  {after / before:.3f}", flush=True)
    lines, all_within = report(ratios, arguments.within)
    print("\n".join(lines))
    sys.exit(0 if all_within else 1)


if __name__ == "__main__":
    main()
