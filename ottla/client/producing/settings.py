"""A producer's properties, read once and checked against each other.

Must not know what they are used for. Counterpart in Kafka: ProducerConfig.
"""

from typing import Final

from ottla.client.config import ClientConfig
from ottla.wire.config_def import ConfigError
from ottla.wire.records.batch import Compression

MOST_IN_FLIGHT: Final = 5
"""An idempotent producer's batches of one partition in flight, because a broker remembers so many."""


class ProducerSettings:
    """A producer's settings; times are in seconds. ConfigError for properties that contradict each other."""

    def __init__(self, config: ClientConfig) -> None:
        if config["transactional.id"] is not None:
            raise ConfigError("transactional.id: this producer does not support transactions")
        self.acks = {"all": -1, "-1": -1, "0": 0, "1": 1}[config["acks"]]
        self.compression = Compression[str(config["compression.type"]).upper()]
        self.in_flight: int = config["max.in.flight.requests.per.connection"]
        self.retries: int = config["retries"]
        self.is_idempotent = _is_idempotent(config)
        self.batch_size: int = config["batch.size"]
        self.request_size: int = config["max.request.size"]
        self.memory: int = config["buffer.memory"]
        self.linger = config.seconds("linger.ms")
        self.delivery = config.seconds("delivery.timeout.ms")
        self.max_block = config.seconds("max.block.ms")
        self.request_timeout = config.seconds("request.timeout.ms")
        self.backoff = config.seconds("retry.backoff.ms")
        self.max_age = config.seconds("metadata.max.age.ms")

    @property
    def in_flight_of_partition(self) -> int:
        """Return how many batches of a partition may be in flight without a risk for their order."""
        return MOST_IN_FLIGHT if self.is_idempotent or self.acks == 0 else 1


def _is_idempotent(config: ClientConfig) -> bool:
    """Whether batches have sequences. ConfigError if other properties contradict an `enable.idempotence=true` given."""
    misfits = {
        "acks": config["acks"] in ("0", "1"),
        "retries": config["retries"] == 0,
        "max.in.flight.requests.per.connection": config["max.in.flight.requests.per.connection"] > MOST_IN_FLIGHT,
    }
    if not config["enable.idempotence"]:
        return False
    for name, is_misfit in misfits.items():
        if is_misfit and "enable.idempotence" in config.texts:
            raise ConfigError(f"{name}={config[name]} contradicts enable.idempotence=true")
    return not any(misfits.values())
