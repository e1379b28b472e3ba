"""Connect's own transforms, in a JVM of their own, and records as both sides have them."""

import json
from pathlib import Path
from typing import Any

from compat_tests.support import jars
from compat_tests.support.java import JavaProgram

SOURCE = Path(__file__).parent / "ConnectTransforms.java"
PACKAGE = "org.apache.kafka.connect.transforms."


class ConnectTransforms(JavaProgram):
    """Every answer is what Connect makes of the records of one question."""

    def __init__(self) -> None:
        super().__init__(SOURCE, *jars.CONNECT)

    def config(self, name: str) -> list[dict[str, Any]]:
        """Return the keys that a transform or predicate has."""
        found: list[dict[str, Any]] = self._ask({"config": PACKAGE + name})
        return found

    def apply(self, transforms: list[dict[str, Any]], records: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
        """Return what transforms make of records; None for one that is dropped."""
        answer = self._ask({"transforms": transforms, "records": records})
        assert isinstance(answer, list), answer
        return answer

    def _ask(self, question: dict[str, Any]) -> Any:
        return json.loads(self.answer(json.dumps(question)))
