"""A watch of a broker under attack: its memory, and how long an honest client waits for a response.

The honest client is a process of its own, so that the attack in this process does not count as a stall. Time without
a processor does not count either, because the machine may have other work.
"""

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.wire.codec import encode_request
from ottla.wire.messages.api_versions import ApiVersionsRequest

MIB = 1 << 20
CANARY = """
import select, socket, sys, time
host, port, request, pid = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3]), sys.argv[4]
schedules = [open(f"/proc/{each}/schedstat", "rb", buffering=0) for each in ("self", pid)]

def kept_from_running():
    seconds = 0
    for schedule in schedules:
        schedule.seek(0)
        seconds += int(schedule.read(100).split()[1]) / 1e9
    return seconds

broker = socket.create_connection((host, port), 10)
count = longest = stall = 0
print("singing", flush=True)
while not select.select([sys.stdin], [], [], 0.001)[0]:
    kept, began = kept_from_running(), time.perf_counter()
    broker.sendall(request)
    reply = b""
    while len(reply) < 4 or len(reply) < 4 + int.from_bytes(reply[:4], "big"):
        piece = broker.recv(65536)
        assert piece, "the broker has closed the connection"
        reply += piece
    wait = time.perf_counter() - began
    count, longest, stall = count + 1, max(longest, wait), max(stall, wait - (kept_from_running() - kept))
print(count, longest, stall)
"""


class Watch:
    """Watches during a `with` block: `peak_growth` in bytes, waits and stalls in seconds."""

    def __init__(self, bootstrap: str, pid: int) -> None:
        self.peak_growth = 0
        self.longest_wait = 0.0
        self.longest_stall = 0.0
        self.answers = 0
        self._process = Path(f"/proc/{pid}")
        self._bootstrap = bootstrap

    def __enter__(self) -> Self:
        host, port = self._bootstrap.rsplit(":", 1)
        request = encode_request(0, 1, "canary", ApiVersionsRequest())
        self._canary = subprocess.Popen(
            [sys.executable, "-c", CANARY, host, port, request.hex(), self._process.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._canary.stdout is not None
        assert self._canary.stdout.readline() == "singing\n"
        self._before = self._status("VmRSS")
        # Resets the peak to the resident size.
        (self._process / "clear_refs").write_text("5")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.peak_growth = self._status("VmHWM") - self._before
        told, _ = self._canary.communicate()
        assert error is not None or self._canary.returncode == 0, "the canary is dead"
        if told:
            answers, longest, stall = told.split()
            self.answers, self.longest_wait, self.longest_stall = int(answers), float(longest), float(stall)

    def __str__(self) -> str:
        return (
            f"memory up by {self.peak_growth / MIB:.0f} MiB, {self.answers} answers to the canary, "
            f"the slowest after {1000 * self.longest_wait:.0f} ms, {1000 * self.longest_stall:.0f} ms of them a stall"
        )

    def _status(self, field: str) -> int:
        """Return a size from the status of the process, in bytes."""
        for line in (self._process / "status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        raise LookupError(field)
