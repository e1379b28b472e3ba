"""The driver of Spark: its source and its sink for Kafka, in batches."""

import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructField, StructType

from compat_tests.compatibility.programs.answering import Lacks, plain, raw, serve
from compat_tests.support.jars import spark_jars

Connection = dict[str, Any]
Session = Any

MOST_BYTES = 1 << 25
LOGIN = "org.apache.kafka.common.security."
HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
RECORD = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("partition", IntegerType()),
        StructField("headers", ArrayType(HEADER)),
    ]
)


def options(connection: Connection) -> dict[str, str]:
    """Return a connection as options of Spark."""
    made = {"kafka.bootstrap.servers": connection["bootstrap"]}
    if "protocol" in connection:
        made["kafka.security.protocol"] = connection["protocol"]
    if "ca" in connection:
        made |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": connection["ca"]}
    if "mechanism" in connection:
        mechanism, user, password = (connection[each] for each in ("mechanism", "user", "password"))
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        login = f'{LOGIN}{module} required username="{user}" password="{password}";'
        if mechanism == "OAUTHBEARER":
            login = f'{LOGIN}oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{user}";'
        made |= {"kafka.sasl.mechanism": mechanism, "kafka.sasl.jaas.config": login}
    return made


def produce(
    session: Session,
    connection: Connection,
    topic: str,
    records: list[dict[str, Any]],
    acks: str = "all",
    codec: str = "none",
    idempotent: bool = False,
    transaction: dict[str, Any] | None = None,
) -> None:
    if transaction:
        raise Lacks("its sink has no transactions")
    if any("timestamp" in each for each in records):
        raise Lacks("its sink cannot set timestamps")
    rows = [
        (
            raw(each.get("key")),
            raw(each.get("value")),
            each.get("partition", 0),
            [(name, raw(value)) for name, value in each.get("headers", [])],
        )
        for each in records
    ]
    settings = {
        "kafka.acks": acks,
        "kafka.compression.type": codec,
        "kafka.enable.idempotence": str(idempotent).lower(),
        "kafka.max.request.size": str(MOST_BYTES),
        "kafka.max.block.ms": "10000",
    }
    frame = session.createDataFrame(rows, RECORD).coalesce(1)
    frame.write.format("kafka").options(**options(connection), **settings, topic=topic).save()


def fetch(
    session: Session,
    connection: Connection,
    topic: str,
    count: int,
    start: dict[str, int] | str = "beginning",
    partition: int = 0,
    isolation: str = "read_uncommitted",
) -> Any:
    chosen = {"includeHeaders": "true", "kafka.isolation.level": isolation}
    chosen["kafka.max.partition.fetch.bytes"] = str(MOST_BYTES)
    if isinstance(start, dict) and "time" in start:
        chosen |= {"subscribe": topic, "startingTimestamp": str(start["time"])}
    elif isinstance(start, dict):
        chosen |= {
            "assign": f'{{"{topic}":[{partition}]}}',
            "startingOffsets": f'{{"{topic}":{{"{partition}":{start["offset"]}}}}}',
        }
    else:
        chosen |= {"assign": f'{{"{topic}":[{partition}]}}', "startingOffsets": "earliest"}
    frame = session.read.format("kafka").options(**options(connection), **chosen).load().orderBy("offset")
    found = frame.selectExpr("*", "unix_millis(timestamp) AS ms").collect()
    return [
        [
            each.offset,
            each.ms,
            plain(each.key),
            plain(each.value),
            [[h.key, plain(h.value)] for h in each.headers or []],
        ]
        for each in found[:count]
    ]


def main() -> None:
    jars = ",".join(map(str, spark_jars()))
    settings = {
        "spark.jars": jars,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.task.maxFailures": "1",
        "spark.pyspark.python": sys.executable,
    }
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    calls: dict[str, Callable[..., Any]] = {
        "produce": lambda **given: produce(session, **given),
        "fetch": lambda **given: fetch(session, **given),
    }
    serve(calls, lambda error: None)


if __name__ == "__main__":
    main()
