"""The modules that run as native code where a compiler was at hand, and the way Python finds them in that form.

Owns: which modules these are, and when their compiled form stands for them. Must not know: what they do, nor how they
are compiled (`build_native`). Counterpart in Kafka: none; the JVM compiles what is hot.

They are plain Python, and run as such unless there is a form of exactly these sources: one that was made of others is
passed over, so that what is edited is what runs. All are compiled together, since they call each other without Python
in between; so they are used together, or none of them.
"""

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import source_hash, spec_from_file_location
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Final

PLAIN: Final = "OTTLA_PLAIN"
"""With this in the environment the plain form runs."""
SUFFIX: Final = EXTENSION_SUFFIXES[0]
PACKAGE: Final = Path(__file__).parent
FOLDER: Final = PACKAGE / "_native" / SUFFIX.split(".")[1]
"""Each Python has its own: one cannot load what another one compiled."""

# What a record meets on its way in and out, a commit on its way into a group, and what goes through a log at a start or
# before it is read. Not what declares messages: those are classes that are looked into, and their compiled form does
# not tell what they were declared with.
MODULES: Final = (
    "broker.fetch.responses",
    "broker.fetch.sessions",
    "broker.groups.group_requests",
    "broker.groups.internal_topic_log",
    "broker.groups.loader",
    "broker.handlers.fetch",
    "broker.handlers.offset_commit",
    "broker.handlers.produce",
    "broker.loop.deferred",
    "broker.loop.turn",
    "broker.net.buffers",
    "broker.net.connection",
    "broker.net.outbox",
    "broker.net.reply",
    "broker.net.session",
    "broker.net.transport",
    "broker.replicas.in_sync",
    "broker.replicas.manager",
    "broker.replicas.partition",
    "broker.replicas.reads",
    "broker.replicas.waits",
    "broker.replicas.watchers",
    "broker.requests.dispatch",
    "coordinator.effects",
    "coordinator.group",
    "coordinator.group_coordinator",
    "coordinator.group_shard",
    "coordinator.offsets",
    "coordinator.runtime",
    "coordinator.timers",
    "log.append",
    "log.append_info",
    "log.compaction.cleaned_transactions",
    "log.compaction.cleaner",
    "log.compaction.offset_map",
    "log.flushing",
    "log.log",
    "log.recovery.recovery",
    "log.segments.batch_order",
    "log.segments.index",
    "log.segments.index_check",
    "log.segments.open_files",
    "log.segments.segment",
    "log.segments.segment_check",
    "log.segments.segments",
    "log.state.leader_epochs",
    "log.state.producer_state",
    "log.write_pace",
    "pipeline.log_source_columns",
    "wire.batch_header",
    "wire.codec",
    "wire.framing",
    "wire.record_builder",
    "wire.record_filter",
    "wire.record_reader",
    "wire.record_scan",
    "wire.record_validation",
)
# A library holds all modules of a room; each of them has a small one beside it, by which Python enters.
GROUPS: Final = {
    f"ottla_{room}": list(of_room) for room, of_room in groupby(MODULES, lambda name: name.partition(".")[0])
}
LIBRARIES: Final = tuple(f"{group}__mypyc" for group in GROUPS)
_NAMES: Final = frozenset([*LIBRARIES, *(f"ottla.{module}" for module in MODULES)])


def source(module: str) -> Path:
    """The file of one of MODULES."""
    return PACKAGE / f"{module.replace('.', '/')}.py"


def digest() -> str:
    """What tells these sources, as they are now, from others."""
    return source_hash(b"\0".join(source(module).read_bytes() for module in MODULES)).hex()


@cache
def folder() -> Path | None:
    """Where the compiled form is that fits; None where there is none, or where it is not wanted."""
    if os.environ.get(PLAIN) or not FOLDER.is_dir():
        return None
    fitting = FOLDER / digest()
    return fitting if fitting.is_dir() else None


def is_used() -> bool:
    """Whether the compiled form runs in this process."""
    return folder() is not None


class _Finder:
    """Leads to the compiled form of a module, where there is one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _NAMES or (found := folder()) is None:
            return None
        location = str(found / f"{fullname}{SUFFIX}")
        return spec_from_file_location(fullname, location, loader=ExtensionFileLoader(fullname, location))


def install() -> None:
    """Have Python look here first; before any of the modules is imported."""
    sys.meta_path.insert(0, _Finder())
