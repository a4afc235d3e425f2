"""What the client of one connection must send again first: refused batches with a producer id.

A producer keeps several Produces in flight. If the first is refused, because this broker does not
lead yet or too few replicas are in sync, the next one may come when that has just changed. Usually
its sequence shows the gap. But a partition takes any sequence from a producer that it does not
know, because it may have forgotten the producer. So the batch after the gap would be appended, and
the one before it never: that is out of order then. librdkafka even reports it as delivered, because
a later one is. Apache Kafka does this (KAFKA-19880).

Therefore the batches that follow a refused one get the same error, until it comes again. All of
them are retriable, so the client sends all in their order.
"""

from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.primitives import INT32_MAX
from odradek.protocol.records import BatchHeader

from .partition_state import TopicPartition
from .topic_names import TOPIC_NAME_LENGTH_MAX

FOLLOWERS_MAX: Final = 4
"""A producer has at most five batches in flight. A later one does not follow by accident: the
client has given up the refused one."""
REMEMBERED_MAX: Final = 256


class _Refused(NamedTuple):
    code: ErrorCode
    producer: tuple[int, int]
    base_sequence: int
    followers_left: int = FOLLOWERS_MAX

    def distance_to(self, header: BatchHeader) -> int:
        """By how many records a batch comes later; 0 also if it is another producer's."""
        if (header.producer_id, header.producer_epoch) != self.producer:
            return 0
        distance = (header.base_sequence - self.base_sequence) & INT32_MAX
        return distance if distance <= INT32_MAX // 2 else distance - INT32_MAX - 1


class RefusedBatches:
    """The first refused batch of each partition."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[TopicPartition, _Refused] = {}

    def note(self, key: TopicPartition, header: BatchHeader, code: ErrorCode) -> None:
        """Note that a batch was refused, unless one before it was."""
        if not code.retriable or header.producer_id < 0 or len(key[0]) > TOPIC_NAME_LENGTH_MAX:
            return
        known = self._refused.get(key)
        if known is not None and known.distance_to(header) > 0:
            return
        if known is None and len(self._refused) >= REMEMBERED_MAX:
            del self._refused[next(iter(self._refused))]
        producer = header.producer_id, header.producer_epoch
        self._refused[key] = _Refused(code, producer, header.base_sequence)

    def check(self, key: TopicPartition, header: BatchHeader) -> None:
        """Check that no refused batch has to come again before this one.

        Raises: Refused (the error of that one).
        """
        refused = self._refused.get(key)
        if refused is None:
            return
        distance = refused.distance_to(header)
        if distance < 0:  # sent again, as its answer is lost
            return
        left = refused.followers_left
        if distance > 0 and left > 0:
            self._refused[key] = refused._replace(followers_left=left - 1)
            raise Refused(refused.code, None)
        del self._refused[key]
