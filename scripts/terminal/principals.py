"""Principals on the command line: User:alice.

PURE. Counterpart in Kafka: SecurityUtils.parseKafkaPrincipal.
"""

import click


def read_principal(text: str) -> str:
    """Return a text that is a principal, for the type of an option."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise click.BadParameter(f"{text!r} is no principal: it is TYPE:NAME, such as User:{text.strip(':')}")
    return text
