"""kafka-broker-api-versions: the request versions of each broker, and those that Kafka's clients would use.

Counterpart: org.apache.kafka.tools.BrokerApiVersionsCommand.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.cluster import Client, Node
from ottla.client.connection import VersionRange
from ottla.client.errors import ClientError
from ottla.scripts.kafka.calls import client_config
from ottla.scripts.kafka.clusters.api_tables import api_name, asked_by_clients, known_versions
from ottla.scripts.kafka.face import Face, JavaError, Release
from ottla.scripts.kafka.flags import HELP, VERSION, check_required, flag, maybe_print_help_or_version, parse
from ottla.scripts.kafka.java.hashes import hash_order, string_hash

_FLAGS: Final = (
    HELP,
    VERSION,
    flag("bootstrap-server", argument="server(s) to use for bootstrapping", help="The brokers to ask (required)."),
    flag("command-config", argument="command config property file", help="A file of client properties."),
)
_ABOUT: Final = "This tool helps to retrieve broker version information."
_FALSE: Final = 1237
"""Java's hash code of `false`."""


def main(arguments: Sequence[str], face: Face) -> int:
    """Run the tool."""
    try:
        parsed = parse(_FLAGS, arguments)
        maybe_print_help_or_version(face, _FLAGS, parsed, arguments, _ABOUT)
        check_required(face, _FLAGS, parsed, "bootstrap-server")
        _run(parsed.value("bootstrap-server"), parsed.value("command-config"), face)
    except JavaError as error:
        if face.is_3_9:
            raise
        face.complain(str(error.message))
        face.complain_trace(error)
        return 1
    return 0


def _run(bootstrap: str, command_config: str | None, face: Face) -> None:
    hasty = {"request.timeout.ms": "5000", "client.id": "admin-1"}
    config = client_config(face, bootstrap, command_config, **({} if command_config else hasty))
    brokers = ", ".join(f"{each} (id: {-at} rack: null" for at, each in enumerate(bootstrap.split(","), 1))
    try:
        face.with_client(config, _print_all, face)
    except ClientError:
        shown = brokers.replace("null", "null)" if face.is_3_9 else "null isFenced: false)")
        opened, closed = ("List(", ")") if face.is_3_9 else ("[", "]")
        raise JavaError(
            "java.lang.RuntimeException", f"Request METADATA failed on brokers {opened}{shown}{closed}"
        ) from None


async def _print_all(client: Client, face: Face) -> None:
    await client.metadata(())
    nodes = list(client.nodes.values())
    for position in hash_order(_node_hash(each) for each in nodes):
        node = nodes[position]
        fenced = "" if face.is_3_9 else " isFenced: false"
        start = f"{node.host}:{node.port} (id: {node.id} rack: {node.rack or 'null'}{fenced}) -> "
        try:
            offered = (await client.connection(node.id)).api_versions
        except ClientError as error:
            face.print(f"{start}ERROR: {error}")
            continue
        face.print(f"{start}(\n\t" + ",\n\t".join(lines(offered, face.release)) + "\n)")


def lines(offered: Mapping[int, VersionRange], release: Release) -> list[str]:
    """Return a line for each request that a broker offers, or that a client of the release could send."""
    known = known_versions(release)
    return [
        _line(number, offered.get(number), known.get(number), release)
        for number in sorted({*offered, *asked_by_clients(release)})
    ]


def _line(number: int, offered: VersionRange | None, known: VersionRange | None, release: Release) -> str:
    name = "UNKNOWN" if known is None else api_name(number, release)
    if offered is None:
        return f"{name}({number}): UNSUPPORTED"
    shown = str(offered.lowest) if offered.lowest == offered.highest else f"{offered.lowest} to {offered.highest}"
    return f"{name}({number}): {shown}{'' if known is None else f' [{_usable(offered, known)}]'}"


def _usable(offered: VersionRange, known: VersionRange) -> str:
    if known.highest < offered.lowest:
        return "unusable: node too new"
    if offered.highest < known.lowest:
        return "unusable: node too old"
    return f"usable: {min(known.highest, offered.highest)}"


def _node_hash(node: Node) -> int:
    found = 31 + string_hash(node.host)
    for each in (node.id, node.port, string_hash(node.rack or ""), _FALSE):
        found = (31 * found + each) & 0xFFFFFFFF
    return found
