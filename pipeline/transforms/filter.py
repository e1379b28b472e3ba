"""Filter: drops records."""

from typing import TYPE_CHECKING

from ottla.pipeline.transforms.transform import Change, Transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Filter(Transform):
    """Drop all records, or rather those for which its predicate holds; nothing later sees them.

    Records that have an error already are kept, for whoever looks after these.
    """

    def change(self, frame: "DataFrame") -> Change:
        """No column changes."""
        return Change({})

    def apply(self, frame: "DataFrame") -> "DataFrame":
        """Keep the rows that are not meant."""
        return frame.filter(~self.applies(frame))
