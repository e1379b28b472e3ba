"""What Spark, Java and Python workers say when something fails, as one line.

Owns the way from an error to the cause that matters. Must not know which part of a job failed. Counterpart in Kafka:
ConnectException, whose message is the last line of a stack trace too.
"""

import re
from typing import Any, Final

from ottla.pipeline.settings import JobError

_JOB_ERROR: Final = re.compile(r"\A[\w.]*\bJobError: ")


def reason(error: BaseException) -> str:
    """What went wrong, in one line: the first cause, without what was wrapped around it.

    A JobError that was raised while a batch was written comes out of it as it was.
    """
    if isinstance(error, JobError):
        return str(error)
    origin: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if origin is None:
        return _line(type(error).__name__, str(error))
    while (cause := origin.getCause()) is not None:
        origin = cause
    return _line(origin.getClass().getSimpleName(), origin.getMessage() or "")


def _line(kind: str, message: str) -> str:
    lines = [line for line in map(str.strip, message.splitlines()) if line and not line.startswith("SQLSTATE:")]
    if any("Traceback (most recent call last)" in line for line in lines):
        # Of what a Python process raised, the last line has kind and message.
        return _JOB_ERROR.sub("", lines[-1])
    return f"{kind}: {lines[0]}" if lines else kind
