"""Java's regular expressions, as Connect's transforms and predicates use them.

Owns how a whole text is matched where Spark only searches, and how a bad expression is found before any row: some
without a JVM, the others by Spark. Counterparts: RegexValidator, java.util.regex.Pattern.
"""

import re
import warnings
from typing import Any, Final

from ottla.pipeline.settings import Settings
from ottla.wire.config_def import Check

# What Java refuses as Python does; other complaints of Python's may be about what only Java knows.
_SAME_IN_JAVA: Final = {
    "missing ), unterminated subpattern",
    "unbalanced parenthesis",
    "unterminated character set",
    "bad escape (end of pattern)",
}
_ONLY_IN_JAVA: Final = re.compile(r"\\Q|&&|\[[^\]]*\[")


def _fault(pattern: str) -> str | None:
    if _ONLY_IN_JAVA.search(pattern):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except re.error as error:
        if error.msg in _SAME_IN_JAVA or pattern[0] in "*+?":
            return f"is no regular expression: {error}"
    return None


JAVA_REGEX: Final = Check("Java regular expression", _fault)


def whole(pattern: str) -> str:
    """Return the expression that is found exactly in the texts that `pattern` matches as a whole."""
    return rf"\A(?:{pattern})\z"


def check_in_spark(session: Any, settings: Settings, key: str, pattern: str, replacement: str | None = None) -> None:
    """Have Spark's JVM judge an expression and a replacement: JobError if they cannot stand."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as fn

    one_row = session.sql("SELECT '' AS text")

    def refused(expression: str, by: str) -> bool:
        try:
            one_row.select(fn.regexp_replace("text", expression, by)).collect()
        except PySparkException:
            return True
        return False

    if refused(pattern, "") or refused(whole(pattern), ""):
        raise settings.wrong(key, f"is no regular expression of Java: {pattern!r}")
    # The alternative matches the empty text, so that the replacement is tried.
    if replacement is not None and refused(f"(?:{pattern})|", replacement):
        raise settings.wrong("replacement", f"refers to a group that {key} has not, or is no replacement")
