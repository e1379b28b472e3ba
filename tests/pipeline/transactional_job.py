"""A streaming query that copies a topic, as a process that is killed.

Its arguments are how many rows make a batch, and what else `copy` takes.
"""

import os
import sys
from typing import Any

from compat_tests.support.jars import spark_jars
from ottla.pipeline.transactional_sink import FORMAT, register, spread

TASKS = 2


def copy(spark: Any, rows_of_a_batch: int, bootstrap: str, source: str, target: str, folder: str) -> Any:
    """Return the writer of a stream from one topic to another, with all that a record has."""
    register(spark)
    options = {"subscribe": source, "startingOffsets": "earliest", "includeHeaders": "true"}
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).options(**options)
    frame = read.option("maxOffsetsPerTrigger", rows_of_a_batch).load()
    rows = spread(frame, TASKS, "topic", "partition").select("key", "value", "headers", "partition", "timestamp")
    sink = rows.writeStream.format(FORMAT).option("kafka.bootstrap.servers", bootstrap)
    return sink.options(topic=target, query=target, tasks=TASKS, checkpointLocation=folder)


def main() -> None:
    """Copy until killed, or until all is copied; say when each batch is done."""
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQueryListener

    class Telling(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            """Nothing is done yet."""

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            print("batch", event.progress.batchId, event.progress.numInputRows, flush=True)

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            """Whoever waits for the query knows."""

    settings = {
        "spark.jars": ",".join(map(str, spark_jars())),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    # Else it is the first python3 of the path that runs what is written in Python.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.streams.addListener(Telling())
    copy(spark, int(sys.argv[1]), *sys.argv[2:]).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
