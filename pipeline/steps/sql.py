"""`kind = "sql"`: a query over all views that there are.

Owns the views' names in Spark's catalog for as long as a query is read. Counterparts in Kafka: map, filter, flatMap and
selectKey of KStream.
"""

import threading
from typing import Final

from ottla.pipeline.settings import Settings
from ottla.pipeline.steps.step import RECORDS, DataFrame, Step, Views

# The names belong to the whole session, in which other threads may start other jobs.
_NAMES: Final = threading.Lock()


class Sql(Step):
    """`query`, over the views of the inputs and of earlier steps."""

    is_stateful = False

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.query = settings.text("query")

    def apply(self, views: Views) -> DataFrame:
        """What the query finds."""
        session = views[RECORDS].sparkSession
        with _NAMES:
            try:
                for name, frame in views.items():
                    frame.createOrReplaceTempView(name)
                return session.sql(self.query)
            finally:
                for name in views:
                    session.catalog.dropTempView(name)
