"""Python source under construction: lines, indentation, fresh names, and the constants the lines refer to.

Owns what encoders and decoders have in common; knows no message. No counterpart in Kafka, whose generator writes Java.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as Packer
from typing import Any


class Source:
    """One module's worth of generated functions, all in one scope."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0

    def emit(self, line: str) -> None:
        """Append a line at the present indentation."""
        self._lines.append(" " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """The lines within are the body of `head`."""
        self.emit(head)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.emit("pass")
        self._depth -= 1

    @contextmanager
    def function(self, head: str) -> Iterator[None]:
        """A function of its own, written before the one that is under way."""
        outer, self._lines = self._lines, []
        depth, self._depth = self._depth, 0
        with self.block(head):
            yield
        self._lines += outer
        self._depth = depth

    def name(self, stem: str) -> str:
        """A name nobody else has."""
        self._names += 1
        return f"{stem}{self._names}"

    def constant(self, stem: str, value: object) -> str:
        """The name under which the lines find `value`."""
        name = self.name(stem)
        self.scope[name] = value
        return name

    def packer(self, method: str, codes: str) -> str:
        """The name of `method` of the struct in network order with these format codes."""
        name = f"{method}_{codes.replace('?', 'bool')}"
        if name not in self.scope:
            self.scope[name] = getattr(Packer(">" + codes), method)
        return name

    def literal(self, value: object) -> str:
        """`value` as an expression."""
        if value is None or isinstance(value, bool | int | str | bytes | float) or value == ():
            return repr(value)
        return self.constant("default", value)

    def text(self) -> str:
        """All of it."""
        return "\n".join(self._lines) + "\n"

    def compile(self, filename: str, function: str) -> Any:
        """Execute the source and give `function` of it."""
        exec(compile(self.text(), filename, "exec"), self.scope)
        return self.scope[function]
