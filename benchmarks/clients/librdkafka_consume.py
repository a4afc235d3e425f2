"""librdkafka's consumer by assignment: partition 0 from its beginning, a number of records."""

import argparse
import json
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition


def consume(bootstrap: str, topic: str, records: int) -> dict[str, float]:
    """Bytes of values a second, from the first message to the last."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            # Otherwise the client's own queue (64 MiB) is what is measured, by its pauses.
            "queued.max.messages.kbytes": 1_048_576,
            "queued.min.messages": 1_000_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    seen = size_bytes = 0
    began = 0.0
    while seen < records:
        # It waits for as many as it was asked for: never ask for more than there are.
        messages = consumer.consume(min(10_000, records - seen), timeout=30.0)
        if not messages:
            raise TimeoutError(f"no message in 30 s after {seen} of {records}")
        for message in messages:
            if error := message.error():
                raise KafkaException(error)
            size_bytes += len(message.value())
        if not began:
            began, size_bytes = time.perf_counter(), 0
        seen += len(messages)
    took_s = time.perf_counter() - began
    consumer.close()
    return {"rate": size_bytes / took_s}


def main() -> None:
    """Print the summary as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    given = parser.parse_args()
    print(json.dumps(consume(given.address, given.topic, given.records)))


if __name__ == "__main__":
    main()
