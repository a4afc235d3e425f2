"""Asks with librdkafka where a partition begins and ends."""

from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from .waiting import until

TIMEOUT_S: Final = 30.0


def watermarks(consumer: Consumer, where: TopicPartition) -> tuple[int, int]:
    """The first offset of a partition, and the one after its last.

    A new leader answers OFFSET_NOT_AVAILABLE until its high watermark has reached its first offset
    (KIP-207). Clients ask again, but librdkafka leaves that to its caller.  Raises: NotYet.
    """

    def look() -> tuple[int, int] | None:
        try:
            first, end = consumer.get_watermark_offsets(where, timeout=TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.OFFSET_NOT_AVAILABLE:
                raise
            return None
        return first, end

    return until(look, f"{where} has a high watermark", TIMEOUT_S)
