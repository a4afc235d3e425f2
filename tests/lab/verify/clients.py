"""Which clients there are: the command line of each, and its settings in the laboratory."""

from collections.abc import Callable
from typing import Any, Final

from tests.kafka.java import command_line
from tests.lab.cluster import DELIVERY_TIMEOUT_MS, REQUEST_TIMEOUT_MS

from .child import python

JAVA_CLIENTS: Final = "4.3.1"
SESSION_TIMEOUT_MS: Final = 6000
HEARTBEAT_MS: Final = 1000
FOREVER: Final = 2**31 - 1
Settings = dict[str, Any]


def command(role: str, kind: str) -> list[str]:
    """The command line of a client that will `write`, `read` or be a `member`, without its spec."""
    if kind == "java":
        return command_line(JAVA_CLIENTS, "Verify", role)
    return python(f"{role}_{kind}")


def writer_settings(kind: str, *, acks: str, idempotent: bool) -> Settings:
    """Settings of a producer: it tries again for two minutes."""
    return _WRITERS[kind](acks, idempotent)


def member_settings(kind: str, group: str) -> Settings:
    """Settings of a member of a classic group, which commits by itself only."""
    return {**_MEMBERS[kind], _GROUP[kind]: group}


def reader_settings(kind: str) -> Settings:
    """Settings of a reader that belongs to no group."""
    return dict(_READERS[kind])


def _librdkafka(acks: str, idempotent: bool) -> Settings:
    return {
        "acks": acks,
        "enable.idempotence": idempotent,
        "request.timeout.ms": REQUEST_TIMEOUT_MS,
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        "socket.timeout.ms": 2 * REQUEST_TIMEOUT_MS,
        "retries": FOREVER,
        "linger.ms": 5,
        "reconnect.backoff.max.ms": 500,
    }


def _java(acks: str, idempotent: bool) -> Settings:
    return {
        "acks": acks,
        "enable.idempotence": idempotent,
        "request.timeout.ms": REQUEST_TIMEOUT_MS,
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        "max.block.ms": DELIVERY_TIMEOUT_MS,
        "retries": FOREVER,
        "linger.ms": 5,
        "reconnect.backoff.max.ms": 500,
    }


def _aiokafka(acks: str, idempotent: bool) -> Settings:
    # Its batches end with a request's time, also before they were sent, and with a batch that has
    # ended an idempotent one loses count of its sequence: so as long as the others try, much longer
    # than any election, and than three brokers take to start on a slow machine.
    return {
        "acks": acks if acks == "all" else int(acks),
        "enable_idempotence": idempotent,
        "request_timeout_ms": DELIVERY_TIMEOUT_MS,
        "linger_ms": 5,
        "metadata_max_age_ms": 10_000,
    }


_WRITERS: Final[dict[str, Callable[[str, bool], Settings]]] = {
    "librdkafka": _librdkafka,
    "java": _java,
    "aiokafka": _aiokafka,
}
_GROUP: Final = {"librdkafka": "group.id", "java": "group.id", "aiokafka": "group_id"}
_JAVA_MEMBER: Final[Settings] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "session.timeout.ms": SESSION_TIMEOUT_MS,
    "heartbeat.interval.ms": HEARTBEAT_MS,
    "reconnect.backoff.max.ms": 500,
}
_MEMBERS: Final[dict[str, Settings]] = {
    "librdkafka": {**_JAVA_MEMBER, "socket.timeout.ms": 2 * REQUEST_TIMEOUT_MS},
    "java": {**_JAVA_MEMBER, "request.timeout.ms": 2 * REQUEST_TIMEOUT_MS},
    "aiokafka": {
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "request_timeout_ms": 2 * REQUEST_TIMEOUT_MS,
        "metadata_max_age_ms": 10_000,
    },
}
_READERS: Final[dict[str, Settings]] = {
    "java": {"enable.auto.commit": False, "auto.offset.reset": "none"},
    "librdkafka": {
        "group.id": "readers",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
    },
}
