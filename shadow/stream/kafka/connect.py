"""How a kafka-python client comes to stand within a bound, and what is said when it does not.

kafka-python retries a refused login like a refused connection and names neither in what it raises;
the reason stands in its log only. Here a refused login ends the attempt at once. A client that
failed to come up leaves sockets and a thread behind; they are closed here.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from kafka.errors import (
    AuthorizationError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.compat import KafkaNetClient

from shadow.stream import StreamUnavailable
from shadow.stream.kafka.settings import KafkaSettings, connection_options

C = TypeVar("C")
HANG_UPS = 5
"""How often a broker may hang up during one attempt to log in: about two seconds."""
_REFUSAL = 2
_REFUSED = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError, AuthorizationError)


class _Reasons(logging.Handler):
    """Remembers the most telling error that one client's own threads logged; calls `give_up` when a
    login was refused. A broker's refusal is often lost to its hanging up right behind it, so with a
    login some hang-ups are one too.
    """

    def __init__(self, settings: KafkaSettings, give_up: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._give_up = give_up
        self._hang_ups_left = HANG_UPS if settings.sasl else sys.maxsize
        client_id = settings.client_id
        self._threads = {f"kafka-io-{client_id}", threading.current_thread().name}
        self._found: tuple[int, BaseException] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.threadName not in self._threads or not isinstance(record.args, tuple):
            return
        for argument in record.args:
            if isinstance(argument, BaseException):
                found = (_telling(argument), argument)
                if self._found is None or found[0] >= self._found[0]:
                    self._found = found
                if found[0] == _REFUSAL or self._is_last_hang_up(record, argument):
                    self._give_up()

    def _is_last_hang_up(self, record: logging.LogRecord, error: BaseException) -> bool:
        if record.msg.startswith("Bootstrap connection") and "disconnected" in str(error):
            self._hang_ups_left -= 1
        return self._hang_ups_left == 0

    def best(self, otherwise: BaseException) -> BaseException:
        """The last of the most telling."""
        return self._found[1] if self._found else otherwise


def _telling(error: BaseException) -> int:
    """A refused login says more than the disconnect after it, and that more than giving up."""
    if isinstance(error, _REFUSED):
        return _REFUSAL
    return 0 if isinstance(error, (KafkaTimeoutError, RequestTimedOutError)) else 1


def opened(
    settings: KafkaSettings, make: Callable[..., C], **options: Any
) -> tuple[C, KafkaNetClient]:
    """`make(**options)` connected and logged in, with the client beneath it.

    Args:
        settings: where and as whom.
        make: KafkaProducer, KafkaConsumer or KafkaAdminClient.
        options: beside those of the connection.

    Raises:
        StreamUnavailable: not within `connect_timeout`, or the login was refused; one line with
            the reason.
    """
    beneath: list[KafkaNetClient] = []

    def client(**given: Any) -> KafkaNetClient:
        beneath.append(KafkaNetClient(**given))
        return beneath[-1]

    def give_up() -> None:
        for each in beneath:
            each._manager.close()  # noqa: SLF001 its loop of attempts ends by this alone

    connection = connection_options(settings) | options
    reasons, log = _Reasons(settings, give_up), logging.getLogger("kafka")
    log.addHandler(reasons)
    try:
        return make(**connection, kafka_client=client), beneath[0]
    except (KafkaError, OSError, RuntimeError, ValueError) as error:
        for each in beneath:
            each.close()
        best = reasons.best(error)
        raise StreamUnavailable(
            f"{settings.address}: could not connect or log in: "
            f"{explained(best)}{_hint(settings, best)}"
        ) from error
    finally:
        log.removeHandler(reasons)


_WAYS_OUT = (
    ("CERTIFICATE_VERIFY_FAILED", "does tls.ca hold the authority of the brokers' certificates?"),
    ("DNS Resolution", "are the names in bootstrap_servers right?"),
    ("ECONNREFUSED", "nobody listens there; is bootstrap_servers right, and the broker running?"),
    ("imed out", "is bootstrap_servers right, and does a firewall let us through?"),
)
"""What stands in an error's text, and what a person would look at."""


def _hint(settings: KafkaSettings, error: BaseException) -> str:
    """The way out; for a broker that hangs up without a word what that usually means."""
    if isinstance(error, UnsupportedSaslMechanismError):
        return ": the brokers do not speak this sasl_mechanism"
    if isinstance(error, _REFUSED):
        return ": are sasl_user, sasl_password and sasl_mechanism right?"
    said = str(error)
    if "disconnected" in said and settings.sasl:
        return ": it hung up during the login; are user, password and mechanism right?"
    if "disconnected" in said:
        return ": it hung up; does that port want TLS or a login?"
    return next((f": {way}" for word, way in _WAYS_OUT if word in said), "")


def explained(error: BaseException) -> str:
    """kafka-python's error as one line, without its numbers and its name said twice."""
    name = type(error).__name__
    text = re.sub(rf"^(\[Error \d+\] )?({name}|[: ])*", "", " ".join(str(error).split()))
    return f"{text} ({name})" if text else name
