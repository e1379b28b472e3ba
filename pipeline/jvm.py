"""Whether the JVM has some class, which is how one sees whether a jar is there.

Owns the look, and the line about what is missing. Must not know where jars come from. Counterpart in Kafka: the plugin
path of Connect.
"""

from typing import Any

from ottla.pipeline.settings import Settings


def find_class(spark: Any, name: str) -> Any:
    """A class of the JVM, or None where no jar has it."""
    try:
        return spark._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Exception:
        return None


def require_class(spark: Any, name: str, settings: Settings, key: str, what: str) -> Any:
    """A class of the JVM; where it is missing, the error says of a key what it needs."""
    found = find_class(spark, name)
    if found is None:
        raise settings.wrong(key, f"needs {what}, which is in none of Spark's jars")
    return found
