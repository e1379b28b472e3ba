"""Errors as one line."""

import pytest

from ottla.pipeline.failures import reason
from ottla.pipeline.settings import JobError

TRACEBACK = 'An exception was raised. Return Message: Traceback (most recent call last):\n  File "x.py", line 1\n'


class Java:
    """As much of a Throwable as is asked for."""

    def __init__(self, name: str, message: str | None, cause: "Java | None" = None) -> None:
        self.name, self.message, self.cause = name, message, cause

    def getCause(self) -> "Java | None":  # noqa: N802
        return self.cause

    def getMessage(self) -> str | None:  # noqa: N802
        return self.message

    def getClass(self) -> "Java":  # noqa: N802
        return self

    def getSimpleName(self) -> str:  # noqa: N802
        return self.name


class FromJavaError(Exception):
    def __init__(self, java_exception: Java) -> None:
        super().__init__("An error occurred while calling o1.save.")
        self.java_exception = java_exception


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("not\nthis"), "ValueError: not"),
        (ValueError(), "ValueError"),
        (JobError("job.toml: sink.path is wrong"), "job.toml: sink.path is wrong"),
        (FromJavaError(Java("IOException", None)), "IOException"),
        (
            FromJavaError(Java("SparkException", "outer", Java("IOException", "No space left on device\n\tat x"))),
            "IOException: No space left on device",
        ),
        (
            FromJavaError(Java("AnalysisException", "[X] no column SQLSTATE: 4")),
            "AnalysisException: [X] no column SQLSTATE: 4",
        ),
        (FromJavaError(Java("PythonException", f"{TRACEBACK}OSError: gone: a\n SQLSTATE: 38000")), "OSError: gone: a"),
        (
            FromJavaError(
                Java("Py4JException", f"{TRACEBACK}ottla.pipeline.settings.JobError: job.toml: sink is full\n")
            ),
            "job.toml: sink is full",
        ),
    ],
)
def test_the_first_cause_is_what_is_told(error: BaseException, line: str) -> None:
    assert reason(error) == line
