"""Principals on the command line: User:alice.

PURE. Counterpart in Kafka: SecurityUtils.parseKafkaPrincipal.
"""

import click


def read_principal(text: str) -> str:
    """Return a text unchanged if it is a principal; it is the type of an option."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise click.BadParameter(f"{text!r} is not a principal: use TYPE:NAME, such as User:{text.strip(':')}")
    return text
