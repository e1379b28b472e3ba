"""`kind = "state"`: a Python class that keeps what it wants for each key.

Owns where the class is found and how it gets to Spark's workers. Must not know what it does. Counterparts in Kafka: the
Processor API, state stores and punctuators.
"""

import importlib
import operator
import sys
from pathlib import Path
from typing import Any, Final

from ottla.pipeline.settings import Settings
from ottla.pipeline.steps.step import DataFrame, OneViewStep, Views, optional_duration

_TIMES: Final = {"none": "None", "processing": "ProcessingTime", "event": "EventTime"}
_STORE: Final = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class State(OneViewStep):
    """`class` = "module:Class", PySpark's StatefulProcessor with pandas, for each value of `group_by`.

    `schema` is what it gives, in SQL's words; `timers` which time its timers and expiring state go by.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.module, _, self.name_there = settings.text("class").partition(":")
        if not self.name_there:
            raise settings.wrong("class", f"is to be module:Class, not {self.module!r}")
        self.group_by = settings.texts("group_by")
        if not self.group_by:
            raise settings.wrong("group_by", "is missing")
        self.schema = settings.text("schema")
        self.timers = _TIMES[settings.choice("timers", list(_TIMES), "none")]
        self.needs_watermark = self.timers == "EventTime"
        self.watermark = optional_duration(settings, "watermark")

    def apply(self, views: Views) -> DataFrame:
        """What the class gives."""
        from pyspark.sql import functions

        frame = self._with_watermark(views)
        # The only store that Spark has for this. A query that is resumed keeps the one that it began with.
        frame.sparkSession.conf.set(_STORE, _ROCKSDB)
        # Columns: Spark finds no others here.
        keys = {f"_group_{n}": functions.expr(sql) for n, sql in enumerate(self.group_by)}
        return (
            frame.withColumns(keys)
            .groupBy(*keys)
            .transformWithStateInPandas(
                self._made(), outputStructType=self.schema, outputMode="Append", timeMode=self.timers
            )
        )

    def _made(self) -> Any:
        """An instance of the class, found where Python finds modules or beside the job's file."""
        from pyspark import cloudpickle

        beside = str(Path(self.settings.file).resolve().parent)
        if beside not in sys.path:
            sys.path.append(beside)
        try:
            module = importlib.import_module(self.module)
            found = operator.attrgetter(self.name_there)(module)
            made = found()
        except (ImportError, AttributeError) as error:
            raise self.settings.wrong("class", f"cannot be found: {error}") from None
        except Exception as error:
            raise self.settings.wrong("class", f"cannot be made: {type(error).__name__}: {error}") from None
        # As a whole: workers on other machines have no such file.
        cloudpickle.register_pickle_by_value(module)
        return made
