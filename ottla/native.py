"""The modules that run as native code if a compiler was available, and the finder that loads their compiled form.

Owns: the list of modules, and when Python loads their compiled form. Must not know: what the modules do, nor how they
are compiled (`build_native`). Counterpart in Kafka: none; the JVM compiles hot code itself.

The modules are plain Python, and run as such unless a compiled form of exactly these sources exists. A form of other
sources is ignored, so an edited module is the running module. All modules are compiled and used together, because they
call each other without Python in between.
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
"""If this environment variable is set, the plain form runs."""
SUFFIX: Final = EXTENSION_SUFFIXES[0]
PACKAGE: Final = Path(__file__).parent
FOLDER: Final = PACKAGE / "_native" / SUFFIX.split(".")[1]
"""Each Python has its own folder, because a Python cannot load another Python's libraries."""

# The modules on the way of a record in and out, on the way of a commit into a group, and of recovery and the check of
# segments. Not the declarations of messages, because a compiled class does not keep its annotations.
MODULES: Final = (
    "broker.fetch.long_poll",
    "broker.fetch.responses",
    "broker.fetch.sessions",
    "broker.groups.group_requests",
    "broker.handlers.fetch",
    "broker.handlers.offset_commit",
    "broker.handlers.produce",
    "broker.internal_topics.committed_appends",
    "broker.internal_topics.loader",
    "broker.internal_topics.topic_log",
    "broker.loop.deferred",
    "broker.loop.turn",
    "broker.net.buffers",
    "broker.net.connection",
    "broker.net.outbox",
    "broker.net.reply",
    "broker.net.session",
    "broker.net.transport",
    "broker.replicas.hosted",
    "broker.replicas.in_sync",
    "broker.replicas.manager",
    "broker.replicas.partition",
    "broker.replicas.produce_responses",
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
    "log.state.producer_entry",
    "log.state.producer_state",
    "log.state.verification",
    "log.write_pace",
    "pipeline.log_source_columns",
    "wire.codec",
    "wire.framing",
    "wire.records.batch_header",
    "wire.records.builder",
    "wire.records.filter",
    "wire.records.reader",
    "wire.records.scan",
    "wire.records.validation",
)
# One library holds all modules of a room; beside it each module has a small library, which Python imports.
GROUPS: Final = {
    f"ottla_{room}": list(of_room) for room, of_room in groupby(MODULES, lambda name: name.partition(".")[0])
}
LIBRARIES: Final = tuple(f"{group}__mypyc" for group in GROUPS)
_NAMES: Final = frozenset([*LIBRARIES, *(f"ottla.{module}" for module in MODULES)])


def source(module: str) -> Path:
    """Return the source file of one of MODULES."""
    return PACKAGE / f"{module.replace('.', '/')}.py"


def digest() -> str:
    """Return the digest of the sources of MODULES as they are now."""
    return source_hash(b"\0".join(source(module).read_bytes() for module in MODULES)).hex()


@cache
def folder() -> Path | None:
    """Return the folder of the compiled form of these sources; None if it does not exist or PLAIN is set."""
    if os.environ.get(PLAIN) or not FOLDER.is_dir():
        return None
    fitting = FOLDER / digest()
    return fitting if fitting.is_dir() else None


def is_used() -> bool:
    """Return whether the compiled form runs in this process."""
    return folder() is not None


class _Finder:
    """Finds the compiled form of a module, if it exists."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _NAMES or (found := folder()) is None:
            return None
        location = str(found / f"{fullname}{SUFFIX}")
        return spec_from_file_location(fullname, location, loader=ExtensionFileLoader(fullname, location))


def install() -> None:
    """Put the finder first in sys.meta_path; call this before any of MODULES is imported."""
    sys.meta_path.insert(0, _Finder())
