"""Kafka's uuids: sixteen bytes, as text in base64url without padding.

PURE. Counterpart in Kafka: org.apache.kafka.common.Uuid.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode

_BYTES = 16


def uuid_text(uuid: bytes) -> str:
    """Return the text form of a uuid."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()


def parse_uuid(text: str) -> bytes:
    """Return the bytes of a text form. ValueError: they are not sixteen."""
    uuid = urlsafe_b64decode(text + "==")
    if len(uuid) != _BYTES:
        raise ValueError(f"{text!r} is no uuid")
    return uuid
