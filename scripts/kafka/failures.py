"""The exceptions of Kafka's tools.

PURE. Counterparts: AdminCommandFailedException, AdminOperationException, TerseException.
"""

from ottla.scripts.kafka.face import JavaError, Release


class TerseError(Exception):
    """A message that a tool prints without a stack trace."""


def command_failed(release: Release, message: str, cause: JavaError | None = None) -> JavaError:
    """Return an AdminCommandFailedException."""
    return JavaError(f"{_package(release)}.AdminCommandFailedException", message, cause)


def operation_failed(release: Release, message: str | None, cause: JavaError | None = None) -> JavaError:
    """Return an AdminOperationException."""
    return JavaError(f"{_package(release)}.AdminOperationException", message, cause)


def _package(release: Release) -> str:
    return "org.apache.kafka.server.common" if release is Release.V3_9 else "org.apache.kafka.tools"
