"""Errors of producers and consumers as Kafka's clients throw them, and the log lines of its tools.

Counterparts: KafkaProducer, KafkaConsumer, ErrorLoggingCallback.
"""

import time

from ottla.client.errors import OperationTimedOutError
from ottla.scripts.kafka.face import Face, JavaError, as_java
from ottla.wire.errors import ErrorCode, KafkaError

_TIMEOUT = "org.apache.kafka.common.errors.TimeoutException"
_CLIENT = "org.apache.kafka.common.KafkaException"


def producer_error(error: Exception, topic: str) -> JavaError:
    """Return the exception of a record that was not sent."""
    if isinstance(error, KafkaError):
        if error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
            error = KafkaError(error.code, f"Invalid topics: [{topic}]")
        elif error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            error = KafkaError(error.code, f"Not authorized to access topics: [{topic}]")
        return as_java(error)
    if isinstance(error, OperationTimedOutError):
        return JavaError(_TIMEOUT, str(error))
    return JavaError(_CLIENT, str(error))


class ProducerErrors:
    """The exceptions of records to one topic.

    For the first record Kafka's client throws the metadata's error of an invalid topic. Later it knows the topic as
    invalid, and throws its name.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._is_invalid = False

    def next(self, error: Exception) -> JavaError:
        """Return the exception of the next record that was not sent."""
        found = producer_error(error, self._topic)
        if isinstance(error, KafkaError) and error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
            if self._is_invalid:
                return JavaError(found.java_class, self._topic)
            self._is_invalid = True
        return found


def consumer_error(error: Exception) -> JavaError:
    """Return the exception of a poll that failed."""
    if isinstance(error, JavaError):
        return error
    if isinstance(error, KafkaError):
        return as_java(error)
    return JavaError(_CLIENT, str(error))


def log_error(face: Face, text: str, java_class: str, error: JavaError) -> None:
    """Print the log line of a class for an exception."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f",{int(now * 1000) % 1000:03}"
    face.complain(f"[{stamp}] ERROR {text} ({java_class})")
    for line in error.trace():
        face.complain(line)
