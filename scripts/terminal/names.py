"""Shell completion of names: topics and groups of the cluster of the options.

Owns a cache of a few seconds, because a shell calls it at every key. Must not print anything, also not errors.
"""

import hashlib
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from ottla.scripts.terminal.profiles import cache_folder
from ottla.scripts.terminal.session import Reach

_FRESH_SECONDS: Final = 10.0
_PATIENCE_SECONDS: Final = 2.0
Lister = Callable[[Any], Awaitable[list[str]]]


class _Name(click.types.StringParamType):
    """A text that the shell completes with names of the cluster."""

    def __init__(self, kind: str, lister: Lister) -> None:
        self._kind = kind
        self._lister = lister

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with `incomplete`."""
        try:
            names = self._names(ctx)
        except Exception:
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    def _names(self, ctx: click.Context) -> list[str]:
        given = ctx.params
        config = given.get("command_config")
        reach = Reach(
            given.get("bootstrap"),
            given.get("profile"),
            None if config is None else Path(config),
            _PATIENCE_SECONDS,
        )
        path = cache_folder(os.environ) / f"{self._kind}-{_digest(reach)}.json"
        names = _cached(path)
        if names is None:
            names = self._ask(reach)
            _keep(path, names)
        return names

    def _ask(self, reach: Reach) -> list[str]:
        import trio

        from ottla.client.cluster import open_client

        config = reach.config()

        async def main() -> list[str]:
            with trio.fail_after(_PATIENCE_SECONDS):
                async with open_client(config) as client:
                    return sorted(await self._lister(client))

        return trio.run(main)


def _digest(reach: Reach) -> str:
    return hashlib.sha256(repr(reach).encode()).hexdigest()[:16]


def _cached(path: Path) -> list[str] | None:
    try:
        if 0 <= time.time() - path.stat().st_mtime < _FRESH_SECONDS:
            found: list[str] = json.loads(path.read_text())
            return found
    except (OSError, ValueError):
        pass
    return None


def _keep(path: Path, names: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(names))
    fresh.replace(path)


async def _topics(client: Any) -> list[str]:
    return [topic.name for topic in (await client.metadata(None)).topics if topic.name]


async def _groups(client: Any) -> list[str]:
    from ottla.client.admin.groups.descriptions import list_groups

    return [each.group_id for each in await list_groups(client)]


async def _resources(client: Any) -> list[str]:
    metadata = await client.metadata(None)
    brokers = [f"broker/{each.node_id}" for each in metadata.brokers]
    return ["broker-defaults", *brokers, *(f"topic/{each.name}" for each in metadata.topics if each.name)]


TOPIC_NAME: Final = _Name("topics", _topics)
GROUP_NAME: Final = _Name("groups", _groups)
RESOURCE_NAME: Final = _Name("resources", _resources)
