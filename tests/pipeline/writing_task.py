"""A process that writes a batch and is killed while it does so; its arguments are a broker, a topic and a number."""

import sys
from collections.abc import Iterator

from ottla.pipeline.transactional_write import Record, write_once
from ottla.pipeline.transactions import Batch, Target, kafka_settings
from tests.pipeline.test_transactional_write import batch_of


def main() -> None:
    """Write the batch of that number; say when it has begun, when all records are there, and when it is done."""
    bootstrap, topic, number = sys.argv[1:]
    target = Target(kafka_settings({"kafka.bootstrap.servers": bootstrap}), topic, topic, 1)

    def records() -> Iterator[Record]:
        print("begun", flush=True)
        yield from batch_of(topic, int(number))
        print("all sent", flush=True)

    write_once(target, 0, Batch("checkpoint", int(number)), records())
    print("done", flush=True)


if __name__ == "__main__":
    main()
