"""Requests to the brokers of a laboratory cluster, one connection each, answers checked."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse
from odradek.protocol.schema import Message
from tests.support.connections import RawConnection

# Longer than administrators give a controller (`admin.TIMEOUT_MS`): what it has done late would be
# asked for again.
ASK_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.1
# The controller may just be moving, a producer id block may be on its way, a preferred replica may
# have been late for a moment and be out of sync.
PASSING: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }
)

Address = tuple[str, int]
T = TypeVar("T")


class Askable(Protocol):
    """A cluster that is asked until it does what it is asked."""

    def ask(
        self,
        request: Message,
        version: int,
        *,
        broker: int | None = None,
        accepted: Collection[ErrorCode] = (),
    ) -> Any:
        """The answer of a broker, or of the controller.  Raises: Refused."""
        ...


class Refused(AssertionError):
    """A broker answered with an error code where it must do what it is asked."""


def ask(address: Address, request: Message, version: int) -> Any:
    """Send one request on a fresh connection; return its answer.  Raises: OSError."""
    with RawConnection(*address, timeout_s=ASK_TIMEOUT_S) as connection:
        return connection.exchange(request, version, client_id="lab")


def codes_in(answer: Any) -> list[tuple[ErrorCode, str]]:
    """Every error code other than 0 anywhere in an answer, with its message."""
    found: list[tuple[ErrorCode, str]] = []
    if isinstance(answer, list):
        return [code for part in answer for code in codes_in(part)]
    if not hasattr(answer, "_names"):
        return found
    code = getattr(answer, "error_code", 0)
    if code:
        found.append((ErrorCode(code), str(getattr(answer, "error_message", None) or "")))
    return found + [c for name in answer._names() for c in codes_in(getattr(answer, name))]


def ask_until_done(
    addresses: Callable[[], Sequence[Address]],
    request: Message,
    version: int,
    *,
    timeout_s: float,
    accepted: Collection[ErrorCode] = (),
) -> Any:
    """Ask until the answer names no passing error; the addresses are looked up for each attempt.

    `accepted` errors are as good as none.  Raises: Refused.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        last: object = "no broker to ask"
        for address in addresses():
            try:
                answer = ask(address, request, version)
            except OSError as error:
                last = f"{type(error).__name__} {error}"
                continue
            codes = [code for code in codes_in(answer) if code[0] not in accepted]
            if not codes:
                return answer
            last = f"{codes} to {request}"
            if not all(code in PASSING for code, _ in codes):
                raise Refused(last)
        if time.monotonic() > deadline:
            raise Refused(f"still after {timeout_s:.0f} s: {last}")
        time.sleep(POLL_S)


def metadata(address: Address) -> dict[str, Any]:
    """What one broker says of the cluster: controller, brokers, and all topics' partitions."""
    answer: MetadataResponse = ask(
        address, MetadataRequest(topics=None, allow_auto_topic_creation=False), 12
    )
    return {
        "controller": answer.controller_id,
        "brokers": sorted(broker.node_id for broker in answer.brokers),
        "topics": {
            str(topic.name): {
                str(partition.partition_index): {
                    "leader": partition.leader_id,
                    "leader_epoch": partition.leader_epoch,
                    "replicas": partition.replica_nodes,
                    "isr": partition.isr_nodes,
                    "offline": sorted(partition.offline_replicas),
                    "error": partition.error_code,
                }
                for partition in sorted(topic.partitions, key=lambda p: p.partition_index)
            }
            for topic in sorted(answer.topics, key=lambda topic: str(topic.name))
        },
    }


def by_topic(partitions: Mapping[tuple[str, int], T]) -> dict[str, dict[int, T]]:
    """What is keyed by topic and partition, keyed by topic first."""
    found: dict[str, dict[int, T]] = {}
    for (topic, partition), value in partitions.items():
        found.setdefault(topic, {})[partition] = value
    return found
