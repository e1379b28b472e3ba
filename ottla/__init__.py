"""Ottla: a Kafka broker in Python.

`Broker` runs one in a child process, for tests. It is imported when it is first asked for, so that `import ottla` costs
nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.embed import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:
    if name == "Broker":
        from ottla.embed import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
