"""What a request is answered with, good or bad. Counterparts in Kafka: ErrorMessage, ConnectRestException."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """A status, and a body unless there is none."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class RestError(Exception):
    """An answer that says what is wrong."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.answer = Answer(status, {"error_code": status, "message": message}, headers or {})
