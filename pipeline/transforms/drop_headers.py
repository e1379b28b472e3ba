"""DropHeaders: takes headers off records."""

from typing import TYPE_CHECKING

from ottla.pipeline.declared import NON_EMPTY_LIST, REQUIRED
from ottla.pipeline.transforms.transform import Change, Transform
from ottla.wire.config_def import ConfigKey, ConfigType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DropHeaders(Transform):
    """Take all headers of some names off each record."""

    headers = ConfigKey[tuple[str, ...]](
        "headers", ConfigType.LIST, REQUIRED, NON_EMPTY_LIST, "Names of the headers to drop."
    )

    def change(self, frame: "DataFrame") -> Change:
        """Keep the others."""
        from pyspark.sql import functions as fn

        return Change({"headers": fn.filter("headers", lambda header: ~header["key"].isin(list(self.headers)))})
