"""The sinks of a job other than topics: one small module each, all of one shape.

Owns the names by which jobs know them. Counterpart in Kafka: the plugins of Connect.
"""

from collections.abc import Callable
from typing import Final

from ottla.pipeline.settings import Settings
from ottla.pipeline.sinks.console import ConsoleSink
from ottla.pipeline.sinks.delta import DeltaSink
from ottla.pipeline.sinks.files import FilesSink, ParquetSink
from ottla.pipeline.sinks.iceberg import IcebergSink
from ottla.pipeline.sinks.jdbc import JdbcSink
from ottla.pipeline.sinks.sink import Sink

__all__ = ["SINKS", "Sink", "read_sink"]

SINKS: Final[dict[str, Callable[[Settings], Sink]]] = {
    "console": ConsoleSink,
    "delta": DeltaSink,
    "files": FilesSink,
    "iceberg": IcebergSink,
    "jdbc": JdbcSink,
    "parquet": ParquetSink,
}


def read_sink(settings: Settings) -> Sink:
    """The sink that a job names, all of its keys checked."""
    sink = SINKS[settings.choice("type", list(SINKS))](settings)
    settings.finish()
    return sink
