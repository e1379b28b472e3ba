"""Kafka's own tools, as their users and scripts know them: the same flags, lines and exit codes.

`python -m ottla.scripts.kafka kafka-topics ...` is what a shim runs; `TOOLS` names them all. A tool is one module with
`main(arguments, face) -> int`. `flags` parses as Kafka's parser (joptsimple) does, `subcommands` as its other one
(argparse4j), `face` is where a tool prints and which release it imitates, `java` holds what shows of Java in Kafka's
lines: names of exceptions, the order of hash maps, formats of numbers.

What the tools print in answer is theirs, help texts are ours. Where Kafka prints a stack trace, its lines that begin
with a tab are left out.
"""

from collections.abc import Mapping
from typing import Final

TOOLS: Final[Mapping[str, str]] = {
    "kafka-topics": "topics",
}
"""The module of each tool."""
