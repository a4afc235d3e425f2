"""What the client of one connection must send again first: refused batches with a producer id.

A producer keeps several Produces in flight. If the first is refused, because this broker does not
lead yet or too few replicas are in sync, the next one may come when that has just changed. Usually
its sequence shows the gap. But a partition takes any sequence from a producer that it does not
know, because it may have forgotten the producer. So the batch after the gap would be appended, and
the one before it never: that is out of order then. librdkafka even reports it as delivered, because
a later one is. Apache Kafka does this (KAFKA-19880).

Therefore the batches that follow a refused one get the same error until that one comes again. The
error is retriable, so the client sends all of them again in order. If the partition knows the
producer, only what its sequences refuse gets that error, as another leader may have taken the
refused batch meanwhile. Kafka answers OUT_OF_ORDER_SEQUENCE_NUMBER then; librdkafka takes that for
lost state, begins a new epoch and may write batches of other partitions twice.
"""

from typing import Final, NamedTuple, Protocol

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

    def check(self, key: TopicPartition, header: BatchHeader, *, is_gap: bool) -> None:
        """Check a batch that is about to be appended, or whose sequence is refused.

        `is_gap`: batches of the producer seem to be missing before it.
        Raises: Refused (the error of an earlier batch, which has not come again).
        """
        refused = self._refused.get(key)
        if refused is None:
            return
        distance, left = refused.distance_to(header), refused.followers_left
        if distance == 0 or (distance > 0 and left == 0):
            del self._refused[key]
        elif distance > 0 and is_gap:
            self._refused[key] = refused._replace(followers_left=left - 1)
            raise Refused(refused.code, None)


class Client(Protocol):
    """The client of one connection."""

    refused_batches: RefusedBatches | None


def note_refused(client: Client, key: TopicPartition, header: BatchHeader, code: ErrorCode) -> None:
    """Have the client send a refused batch with a producer id again before later ones."""
    if header.producer_id >= 0:
        if client.refused_batches is None:
            client.refused_batches = RefusedBatches()
        client.refused_batches.note(key, header, code)
