"""The driver of kcat, a command: each call is a process, and a member of a group a process that keeps running."""

import json
import re
import subprocess
import threading
from collections.abc import Callable
from typing import Any

from compat_tests.compatibility.programs.answering import Lacks, serve

Connection = dict[str, Any]

MOST_BYTES = 1 << 25
PATIENCE_S = 20
STRATEGIES = ("range", "roundrobin", "cooperative-sticky")
# The separators after a key and after a record, which are in no text of a scenario.
KEY, END = "\x1f", "\x1e"


def options(connection: Connection, **more: Any) -> list[str]:
    """Return a connection and settings of librdkafka as options of kcat."""
    names = {
        "protocol": "security.protocol",
        "ca": "ssl.ca.location",
        "mechanism": "sasl.mechanism",
        "user": "sasl.username",
        "password": "sasl.password",
    }
    if "token" in connection:
        raise Lacks("it cannot be given a token")
    given = {names[key]: value for key, value in connection.items() if key in names}
    made = {**given, **{key.replace("_", "."): value for key, value in more.items()}}
    return ["-b", connection["bootstrap"], *(word for key, value in made.items() for word in ("-X", f"{key}={value}"))]


def kcat(*arguments: str, stdin: str | None = None) -> str:
    """Return the output of a kcat process."""
    done = subprocess.run(["kcat", *arguments], input=stdin, capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode:
        lines = done.stderr.splitlines()
        raise RuntimeError(next((each for each in lines if each.startswith("% ERROR")), done.stderr))
    return done.stdout


def produce(
    connection: Connection,
    topic: str,
    records: list[dict[str, Any]],
    acks: str = "all",
    codec: str = "none",
    idempotent: bool = False,
    transaction: dict[str, Any] | None = None,
) -> None:
    if transaction and (transaction["end"] == "abort" or "offsets" in transaction):
        raise Lacks("it commits a transaction at the end of its input, and aborts only by a signal")
    if any("timestamp" in each for each in records):
        raise Lacks("it cannot set timestamps")
    settings = {"message_timeout_ms": 10_000, "message_max_bytes": MOST_BYTES, "compression_codec": codec}
    if transaction:
        settings["transactional_id"] = transaction["id"]
    else:
        settings |= {"enable_idempotence": "true"} if idempotent else {"acks": acks}
    # A process has the same headers for all records.
    runs: list[tuple[list[list[str | None]], int, list[str]]] = []
    for each in records:
        headers, partition = each.get("headers", []), each.get("partition", 0)
        if not runs or runs[-1][:2] != (headers, partition):
            runs.append((headers, partition, []))
        runs[-1][2].append((each.get("key") or "") + KEY + (each.get("value") or ""))
    if any(pair[1] is None for headers, _, _ in runs for pair in headers):
        raise Lacks("its headers must have values")
    texts = {each.get(name) for each in records for name in ("key", "value") if name in each}
    if {None, ""} <= texts:
        raise Lacks("it writes either empty values as null, or no value as null")
    for headers, partition, lines in runs:
        named = [word for name, value in headers for word in ("-H", f"{name}={value}")]
        where = ["-P", "-t", topic, "-p", str(partition), "-K", KEY, "-D", END, *(["-Z"] if None in texts else [])]
        kcat(*options(connection, **settings), *where, *named, stdin=END.join(lines))


def fetch(
    connection: Connection,
    topic: str,
    count: int,
    start: dict[str, int] | str = "beginning",
    partition: int = 0,
    isolation: str = "read_uncommitted",
) -> Any:
    at = f"s@{start['time']}" if isinstance(start, dict) and "time" in start else start
    where = ["-C", "-t", topic, "-p", str(partition), "-c", str(count), "-J", "-q"]
    where += ["-o", str(at["offset"]) if isinstance(at, dict) else str(at)]
    settings = {
        "isolation_level": isolation,
        "fetch_message_max_bytes": MOST_BYTES,
        "receive_message_max_bytes": 1 << 27,
    }
    return [told(json.loads(line)) for line in kcat(*options(connection, **settings), *where).splitlines()]


def told(record: dict[str, Any]) -> list[Any]:
    """Return a printed record as a list."""
    flat = record.get("headers", [])
    headers = [list(pair) for pair in zip(flat[::2], flat[1::2], strict=True)]
    return [record["offset"], record["ts"], record["key"], record["payload"], headers]


def offsets(connection: Connection, topic: str, at: str | int, partition: int = 0) -> int:
    asked = {"earliest": "-2", "latest": "-1"}[at] if isinstance(at, str) else str(at)
    printed = kcat(*options(connection), "-Q", "-J", "-t", f"{topic}:{partition}:{asked}")
    return int(json.loads(printed)[topic][str(partition)]["offset"])


class Member:
    """A process in a group."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assigned: list[list[Any]] = []
        self.read: list[list[Any]] = []
        self.changes = 0
        self.threads = [threading.Thread(target=each, daemon=True) for each in (self._read, self._listen)]
        for each in self.threads:
            each.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            record = json.loads(line)
            self.read.append([record["topic"], record["partition"], record["offset"]])

    def _listen(self) -> None:
        """Parse lines such as `% Group g rebalanced (memberid m): assigned: t [0], t [1]`, and those that revoke."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if " rebalanced" not in line:
                continue
            named = [[topic, int(partition)] for topic, partition in re.findall(r"(\S+) \[(\d+)\]", line)]
            if "revoke" in line:
                self.assigned = [each for each in self.assigned if each not in named]
            else:
                self.assigned = [*self.assigned, *named]
            self.changes += 1

    def state(self) -> dict[str, Any]:
        found = {"assigned": list(self.assigned), "read": list(self.read), "changes": self.changes}
        return {**found, "failure": None if self.process.poll() is None else f"it ended with {self.process.poll()}"}

    def leave(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        for each in self.threads:
            each.join()


members: dict[str, Member] = {}


def join(
    connection: Connection,
    member: str,
    group: str,
    topic: str,
    strategy: str = "range",
    instance: str | None = None,
    protocol: str = "classic",
    auto_commit: bool = False,
) -> None:
    if protocol != "classic":
        raise Lacks("it has only the classic group protocol")
    if strategy not in STRATEGIES:
        raise Lacks(f"it has no assignor `{strategy}`")
    settings = {
        "partition_assignment_strategy": strategy,
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 300,
        "auto_commit_interval_ms": 200,
        "auto_offset_reset": "earliest",
    }
    if instance is not None:
        settings["group_instance_id"] = instance
    # kcat commits at its end and automatically.
    members[member] = Member(["kcat", *options(connection, **settings), "-J", "-u", "-G", group, topic])


def tell(connection: Connection, member: str, what: str, **more: Any) -> None:
    if what != "commit":
        raise Lacks("it takes no commands while it runs")
    # kcat commits all printed records at its end.


def describe_topic(connection: Connection, topic: str) -> Any:
    (found,) = json.loads(kcat(*options(connection), "-L", "-J", "-t", topic))["topics"]
    return [
        [each["partition"], each["leader"], [one["id"] for one in each["replicas"]]] for each in found["partitions"]
    ]


def list_topics(connection: Connection) -> list[str]:
    return [each["topic"] for each in json.loads(kcat(*options(connection), "-L", "-J"))["topics"]]


def describe_cluster(connection: Connection) -> Any:
    found = json.loads(kcat(*options(connection), "-L", "-J"))
    return {"brokers": len(found["brokers"]), "controller": found["controllerid"]}


CALLS: dict[str, Callable[..., Any]] = {
    "produce": produce,
    "fetch": fetch,
    "offsets": offsets,
    "join": join,
    "state": lambda connection, member: members[member].state(),
    "tell": tell,
    "leave": lambda connection, member: members.pop(member).leave(),
    "list_topics": list_topics,
    "describe_topic": describe_topic,
    "describe_cluster": describe_cluster,
}

if __name__ == "__main__":
    serve(CALLS, lambda error: None)
