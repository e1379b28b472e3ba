"""Several hosts on one machine: network namespaces, and a router between them that can drop packets.

Owns the namespaces from creation to removal, also of runs that died. Must not know the tests.
Needs iproute2 and the right to create namespaces: root, or sudo without a password.

Each host has one wire to the router; so has this process, which always reaches every host. A rule of the router drops
packets between two hosts, and neither host gets an error.
"""

import contextlib
import itertools
import os
import random
import re
import signal
import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from compat_tests.support.brokers import Ottla
from compat_tests.support.jars import lack, require
from compat_tests.support.zookeeper import ZooKeeper

# Reserved for tests of networks (RFC 2544). Each network takes one of 256 parts.
ADDRESSES = "198.18"
ROUTER = 254
OURSELVES = 253
NAMES = re.compile(r"ottla-(\d+)-\d+-\w+")

Link = tuple[str, str]


def _sudo() -> list[str]:
    return [] if os.geteuid() == 0 else [require("sudo"), "-n"]


def ip(*arguments: str) -> str:
    """Run iproute2's `ip`; return what it prints."""
    done = subprocess.run([*_sudo(), require("ip"), *arguments], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr}")
    return done.stdout


class Host:
    """A namespace with one address."""

    def __init__(self, namespace: str, address: str) -> None:
        self.namespace = namespace
        self.address = address

    def command(self, command: Iterable[str]) -> list[str]:
        """Return the command line that runs a command on this host, as the current user."""
        entered = [*_sudo(), require("ip"), "netns", "exec", self.namespace]
        if os.geteuid() != 0:
            entered += [require("setpriv"), f"--reuid={os.getuid()}", f"--regid={os.getgid()}", "--clear-groups"]
        return [*entered, *command]

    def signal(self, number: signal.Signals) -> None:
        """Signal every process on this host."""
        for pid in ip("netns", "pids", self.namespace).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), number)

    def remove(self) -> None:
        """Kill all processes on this host, and delete the namespace."""
        self.signal(signal.SIGKILL)
        ip("netns", "delete", self.namespace)


class Network:
    """Hosts that reach each other until a link is cut. They exist within a `with` block."""

    _numbers = itertools.count()

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._stem = f"ottla-{os.getpid()}-{next(self._numbers)}"
        self._router = Host(f"{self._stem}-router", "")
        self._rules: list[str] = []
        self.hosts: dict[str, Host] = {}

    def __enter__(self) -> Self:
        remove_leftovers()
        with contextlib.ExitStack() as stack:
            try:
                ip("netns", "add", self._router.namespace)
            except OSError as error:
                lack(f"no network namespaces: {error}")
            stack.callback(self._router.remove)
            net = self._take_addresses()
            ip("netns", "exec", self._router.namespace, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
            for number, name in enumerate(self._names, 1):
                host = self.hosts[name] = Host(f"{self._stem}-{name}", f"{net}.{number}")
                ip("netns", "add", host.namespace)
                stack.callback(host.remove)
                ip("-n", host.namespace, "link", "set", "lo", "up")
                ip(*self._wire(name), "peer", "name", "eth0", "netns", host.namespace)
                self._join(["-n", host.namespace], "eth0", name, net, number)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _wire(self, name: str) -> list[str]:
        return ["-n", self._router.namespace, "link", "add", f"to-{name}", "type", "veth"]

    def _take_addresses(self) -> str:
        """Wire this process to the router; the name of the interface reserves the addresses."""
        for number in random.sample(range(256), 256):
            with contextlib.suppress(OSError):
                ip(*self._wire("us"), "peer", "name", f"ottla{number}", "netns", str(os.getpid()))
                net = f"{ADDRESSES}.{number}"
                self._join([], f"ottla{number}", "us", net, OURSELVES)
                return net
        raise OSError("no addresses are free")

    def _join(self, namespace: list[str], end: str, name: str, net: str, number: int) -> None:
        """Give both ends of a wire their addresses."""
        router = ["-n", self._router.namespace]
        ip(*router, "address", "add", f"{net}.{ROUTER}", "peer", f"{net}.{number}", "dev", f"to-{name}")
        ip(*router, "link", "set", f"to-{name}", "up")
        ip(*namespace, "address", "add", f"{net}.{number}", "peer", f"{net}.{ROUTER}", "dev", end)
        ip(*namespace, "link", "set", end, "up")
        ip(*namespace, "route", "add", f"{net}.0/24", "via", f"{net}.{ROUTER}")

    def cut(self, links: Iterable[Link]) -> None:
        """Drop all packets from the first to the second host of each pair. The reverse way is another pair."""
        for source, target in links:
            rule = f"iif to-{source} to {self.hosts[target].address} blackhole"
            ip("-n", self._router.namespace, "rule", "add", *rule.split())
            self._rules.append(rule)

    def heal(self) -> None:
        """Drop no packets any more."""
        while self._rules:
            ip("-n", self._router.namespace, "rule", "delete", *self._rules.pop().split())


def remove_leftovers() -> None:
    """Remove the networks of runs that have ended."""
    for line in ip("netns", "list").splitlines():
        found = NAMES.match(line)
        if found is not None and not Path(f"/proc/{found[1]}").exists():
            # Another run may remove them at the same time.
            with contextlib.suppress(OSError):
                Host(found[0], "").remove()


class _Hosted:
    """A server on a host. Signals go to all processes on the host, because `process` may only be its wrapper."""

    process: subprocess.Popen[bytes]
    _host: Host

    def signal(self, number: signal.Signals) -> None:
        self._host.signal(number)

    def kill(self) -> None:
        """End the process at once."""
        self.signal(signal.SIGKILL)
        self.process.wait()


class HostedOttla(_Hosted, Ottla):
    """Ottla on a host of its own."""

    def __init__(self, host: Host, *arguments: Any) -> None:
        self._host, self.host = host, host.address
        super().__init__(*arguments)

    def command(self) -> list[str]:
        """Return the command line of the broker."""
        return self._host.command(super().command())

    def stop(self) -> None:
        """End the process as an operator would."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            assert self.process.wait(30) == 0


class HostedZooKeeper(_Hosted, ZooKeeper):
    """A ZooKeeper on a host of its own."""

    def __init__(self, host: Host, *arguments: Any) -> None:
        self._host, self.host = host, host.address
        super().__init__(*arguments)

    def command(self, properties: Path) -> list[str]:
        """Return the command line of the server."""
        return self._host.command(super().command(properties))

    def pause(self) -> None:
        """Suspend the process."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process."""
        self.signal(signal.SIGCONT)
