"""Ids as Kafka spells them: sixteen bytes in base64url without padding.

PURE. Counterpart in Kafka: org.apache.kafka.common.Uuid.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode

_BYTES = 16


def uuid_text(uuid: bytes) -> str:
    """Return the text form of an id."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()


def parse_uuid(text: str) -> bytes:
    """Return the bytes behind the text form. ValueError if there are not sixteen."""
    uuid = urlsafe_b64decode(text + "==")
    if len(uuid) != _BYTES:
        raise ValueError(f"{text!r} is no uuid")
    return uuid
