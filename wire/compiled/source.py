"""Python source under construction: lines, indentation, fresh names, and the constants of the lines.

Owns the common part of the encoder's and the decoder's source. Must not know a message. No counterpart in Kafka, whose
generator writes Java.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as Packer
from typing import Any


class Source:
    """Generated functions in one scope."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0

    def emit(self, line: str) -> None:
        """Append a line at the current indentation."""
        self._lines.append(" " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent the lines of the with block as the body of `head`."""
        self.emit(head)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.emit("pass")
        self._depth -= 1

    @contextmanager
    def function(self, head: str) -> Iterator[None]:
        """Write the lines of the with block as a function before the current one."""
        outer, self._lines = self._lines, []
        depth, self._depth = self._depth, 0
        with self.block(head):
            yield
        self._lines += outer
        self._depth = depth

    def name(self, stem: str) -> str:
        """Return a new name."""
        self._names += 1
        return f"{stem}{self._names}"

    def constant(self, stem: str, value: object) -> str:
        """Return a name that has `value` in the scope."""
        name = self.name(stem)
        self.scope[name] = value
        return name

    def packer(self, method: str, codes: str) -> str:
        """Return the name of `method` of the big-endian struct with these format codes."""
        name = f"{method}_{codes.replace('?', 'bool')}"
        if name not in self.scope:
            self.scope[name] = getattr(Packer(">" + codes), method)
        return name

    def literal(self, value: object) -> str:
        """Return `value` as an expression."""
        if value is None or isinstance(value, bool | int | str | bytes | float) or value == ():
            return repr(value)
        return self.constant("default", value)

    def text(self) -> str:
        """Return the source."""
        return "\n".join(self._lines) + "\n"

    def compile(self, filename: str, function: str) -> Any:
        """Execute the source and return its `function`."""
        exec(compile(self.text(), filename, "exec"), self.scope)
        return self.scope[function]
