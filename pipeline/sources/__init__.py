"""The sources of a job other than topics: one small module each, all of one shape.

Owns the names by which jobs know them. Counterpart in Kafka: the plugins of Connect.
"""

from collections.abc import Callable
from typing import Final

from ottla.pipeline.settings import Settings
from ottla.pipeline.sources.datagen import DatagenSource
from ottla.pipeline.sources.files import FilesSource
from ottla.pipeline.sources.jdbc import JdbcSource
from ottla.pipeline.sources.rate import RateSource
from ottla.pipeline.sources.source import Source

__all__ = ["SOURCES", "Source", "read_source"]

SOURCES: Final[dict[str, Callable[[Settings], Source]]] = {
    "datagen": DatagenSource,
    "files": FilesSource,
    "jdbc": JdbcSource,
    "rate": RateSource,
}


def read_source(settings: Settings) -> Source:
    """The source that a job names, all of its keys checked."""
    source = SOURCES[settings.choice("type", list(SOURCES))](settings)
    settings.finish()
    return source
