"""meta.properties of a log directory, with its cluster and its node.

Counterparts in Kafka: MetaProperties, MetaPropertiesEnsemble.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.client.config import raw_properties

META_PROPERTIES: Final = "meta.properties"


def read_meta_properties(directory: Path) -> Mapping[str, str] | None:
    """Return the properties of a directory; None if it has none."""
    try:
        return raw_properties(directory / META_PROPERTIES)
    except FileNotFoundError:
        return None
