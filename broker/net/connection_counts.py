"""The number of connections, and whether there may be one more.

PURE. Owns the counts (of the broker, of a listener, of an address) and the rates at which connections are made. Must
not know sockets: the server waits, and closes. Counterparts in Kafka: SocketServer.ConnectionQuotas, Rate, QuotaUtils.
"""

from collections import Counter

from ottla.broker.config.connection_limits import UNLIMITED, ConnectionLimits
from ottla.broker.loop.sliding_rate import SampledRate


class TooManyConnections(Exception):  # noqa: N818 - Kafka's name for it
    """The address has its maximum of connections."""

    def __init__(self, address: str, limit: int) -> None:
        super().__init__(f"Rejected connection from {address}, address already has the configured maximum of {limit}")


class ConnectionQuotas:
    """The counts and limits of one server. Addresses of `limits` must be resolved."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._total = 0
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self.use(limits)

    def use(self, limits: ConnectionLimits) -> None:
        """Use other limits from now on. Connections that exist stay."""
        self._limits = limits
        self._rates = {name: self._rate(each.creation_rate) for name, each in limits.of_listener.items()}
        self._rate_of_all = self._rate(limits.broker.creation_rate)

    def _rate(self, limit: int) -> "CreationRate | None":
        limits = self._limits
        return None if limit == UNLIMITED else CreationRate(limit, limits.window_num, 1000 * limits.window_seconds)

    def is_protected(self, listener: str) -> bool:
        """Whether the broker's limits do not hold for a listener, because brokers must reach each other."""
        return listener == self._limits.inter_broker_listener and len(self._limits.of_listener) > 1

    def delay_ms(self, listener: str, now_ms: float) -> float:
        """Count a new connection, and return how long its listener must pause to stay within the rates."""
        rates = [self._rates.get(listener), None if self.is_protected(listener) else self._rate_of_all]
        return max((rate.record(now_ms) for rate in rates if rate is not None), default=0)

    def has_slot(self, listener: str) -> bool:
        """Whether there may be one more connection to a listener."""
        own = self._limits.of_listener.get(listener)
        if own is not None and self._by_listener[listener] >= own.connections:
            return False
        return self.is_protected(listener) or not self.is_full()

    def is_full(self) -> bool:
        """Whether the broker has its maximum of connections."""
        return self._total >= self._limits.broker.connections

    def add(self, listener: str, address: str) -> None:
        """Count one more connection, or raise TooManyConnections."""
        limit = self._limits.per_ip_overrides.get(address, self._limits.per_ip)
        if self._by_address[address] >= limit:
            raise TooManyConnections(address, limit)
        self._by_address[address] += 1
        self._by_listener[listener] += 1
        self._total += 1

    def remove(self, listener: str, address: str) -> None:
        """Count one connection less."""
        self._total -= 1
        self._by_listener[listener] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class CreationRate:
    """Events per second over `window_num` windows, and the delay that keeps them within a limit."""

    def __init__(self, limit: int, window_num: int, window_ms: int) -> None:
        self._limit = limit
        self._rate = SampledRate(window_num, window_ms)

    def record(self, now_ms: float) -> float:
        """Count an event. Return the milliseconds until the next one may come, one window at most."""
        self._rate.record(1, now_ms)
        count, elapsed = self._rate.measure(now_ms)
        length = self._rate.window_ms
        # Before all windows are measured, the missing ones count as windows without events.
        elapsed = max(1, elapsed + max(0, self._rate.window_num - 1 - elapsed // length) * length)
        rate = 1000 * count / elapsed
        if rate <= self._limit:
            return 0
        return min((rate - self._limit) / self._limit * elapsed, length) if self._limit else length
