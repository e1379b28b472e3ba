"""Commands that Ottla's imitation of Kafka's tools must answer as the tools do: one module an area.

A module holds `COMMANDS` (scenarios by name: a command a line, the tool's name without `kafka-` first), and if it needs
them `FILES` (what commands name as files: text, or what becomes JSON), `SETTINGS` (of the brokers) and
`prepare(tools, broker)`. `test_shims` runs all areas of `AREAS`.
"""

AREAS = ("topics",)
