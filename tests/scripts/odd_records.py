"""Random records with unusual keys, values and headers, in the JSON of the commands."""

import base64
import random
from typing import Any

BASE_MS = 1_700_000_000_000


def odd_bytes() -> bytes | None:
    """Return a random key or value."""
    return random.choice([None, b"", b"text", "\U0001f600\u2028\x00".encode(), random.randbytes(9), b"\n"])


def in_json(data: bytes | None) -> Any:
    """Return bytes as the commands print them."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def odd_record(partitions: int) -> dict[str, Any]:
    """Return a random record as a JSON object of the commands."""
    headers = [(random.choice(["h", "é"]), odd_bytes()) for _ in range(random.randrange(4))]
    return {
        "partition": random.randrange(partitions),
        "timestamp": BASE_MS + random.randrange(10**9),
        "key": in_json(odd_bytes()),
        "value": in_json(odd_bytes()),
        "headers": [{"key": name, "value": in_json(value)} for name, value in headers],
    }
