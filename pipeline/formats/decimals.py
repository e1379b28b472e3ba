"""Decimals as the bytes of a whole number, big-endian and in two's complement: columns of either from the other.

Counterpart in Kafka: org.apache.kafka.connect.data.Decimal.
"""

from typing import Any, Final

Column = Any
# The most that Spark's decimals need; two halves of it are what `conv` can hold.
_MOST_BYTES: Final = 16
_HALF: Final = 2**64
_NEEDLESS_BYTES: Final = "^(?:(?:00)+(?=[0-7])|(?:FF)+(?=[89A-F]))"


def from_bytes(data: Column, precision: int, scale: int) -> Column:
    """Return the decimals that bytes are; null where they are none, or too large."""
    from pyspark.sql import functions as fn

    digits = fn.hex(data)
    sign = fn.when(digits.rlike("^[89A-F]"), "F").otherwise("0")
    padded = fn.when(fn.length(data).between(1, _MOST_BYTES), fn.lpad(digits, 2 * _MOST_BYTES, sign))
    high = fn.conv(fn.substring(padded, 1, _MOST_BYTES), 16, -10).cast("decimal(20,0)")
    low = fn.conv(fn.substring(padded, _MOST_BYTES + 1, _MOST_BYTES), 16, 10).cast("decimal(20,0)")
    unscaled = fn.try_add(fn.try_multiply(high, _half()), low)
    return fn.concat(unscaled.cast("string"), fn.lit(f"E-{scale}")).try_cast(f"decimal({precision},{scale})")


def to_bytes(value: Column, scale: int) -> Column:
    """Return the bytes of decimals that have this scale, as few as hold the number."""
    from pyspark.sql import functions as fn

    # Unlike a cast to a text, this never has an exponent.
    unscaled = fn.translate(fn.format_number(value, scale), ",.", "").cast("decimal(38,0)")
    low = fn.pmod(unscaled, _half())
    # Division goes towards zero: what is below zero and not whole is one too high.
    above = fn.when((unscaled < 0) & (low != 0), 1).otherwise(0)
    high = fn.call_function("div", unscaled, _half()) - above
    halves = (fn.hex(high), fn.conv(low.cast("string"), 10, 16))
    digits = fn.concat(*(fn.lpad(half, 16, "0") for half in halves))
    return fn.unhex(fn.regexp_replace(digits, _NEEDLESS_BYTES, ""))


def _half() -> Column:
    from pyspark.sql import functions as fn

    return fn.lit(str(_HALF)).cast("decimal(20,0)")
