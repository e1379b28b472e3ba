"""Ottla: a Kafka broker in Python.

`Broker` runs a broker in a child process, for tests; `Cluster` runs several. Both are imported at first use, so
`import ottla` costs nothing.
"""

from typing import TYPE_CHECKING, Any

from ottla import native

if TYPE_CHECKING:
    from ottla.embedded.broker import Broker, Cluster

__all__ = ["Broker", "Cluster"]

native.install()


def __getattr__(name: str) -> Any:
    if name in __all__:
        from ottla.embedded import broker as embed

        return getattr(embed, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
