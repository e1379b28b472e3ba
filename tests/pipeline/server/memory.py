"""The topic of the configs, in memory."""

import json
from collections.abc import Sequence

from ottla.pipeline.server.state import Record, State


class Memory:
    """Takes in at once what is written."""

    def __init__(self) -> None:
        self.state = State()
        self.written: list[Record] = []

    def write(self, records: Sequence[Record]) -> None:
        for key, value in records:
            self.state.apply(key, None if value is None else json.dumps(value).encode(), len(self.written))
            self.written.append((key, value))
