"""Producers that write 0, 1, 2, … to one partition while their broker is killed and started.

One producer instance goes through it all; what was acknowledged is counted as the answers come.
"""

import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Final, Protocol, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.kafka.java import command_line
from tests.support.waiting import until
from tests.wire.clients import ClientFailed, Settings, librdkafka
from tests.wire.servers import Server

PER_SECOND: Final = 8000
UNANSWERED_MAX: Final = 5000
ENDING_TIMEOUT_S: Final = 90.0


class Load(Protocol):
    """A running producer: `finish` stops it after all it sent was answered."""

    acked: list[int]
    failed: list[str]

    def finish(self) -> int:
        """Stop sending, wait for the answers, return how many were sent."""

    def close(self) -> None: ...


class JavaLoad:
    """The Java producer, in a process of its own."""

    def __init__(self, servers: str, topic: str, settings: Mapping[str, str]) -> None:
        config = {"reconnect.backoff.max.ms": "100", "linger.ms": "2", **settings}
        pairs = [f"{name}={value}" for name, value in config.items()]
        self.acked: list[int] = []
        self.failed: list[str] = []
        self._sent = -1
        self._process = subprocess.Popen(
            command_line("4.3.1", "Acks", servers, topic, str(PER_SECOND), *pairs),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "acked":
                self.acked.append(int(rest))
            elif word == "failed":
                self.failed.append(rest)
            else:
                self._sent = int(rest)

    def finish(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write("stop\n")
        self._process.stdin.close()
        self._reader.join(ENDING_TIMEOUT_S)
        assert self._process.wait(ENDING_TIMEOUT_S) == 0
        return self._sent

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(5)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LibrdkafkaLoad:
    """librdkafka's producer, in a thread."""

    def __init__(self, servers: str, topic: str, settings: Mapping[str, str]) -> None:
        config: Settings = {"reconnect.backoff.max.ms": 100, "linger.ms": 2, **settings}
        self.acked: list[int] = []
        self.failed: list[str] = []
        self._sent = 0
        self._topic = topic
        self._producer = Producer(librdkafka(servers, **config))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acked.append(int(message.value() or b""))
        else:
            self.failed.append(f"{message.value()!r} {error}")

    def _send(self) -> None:
        per_turn = PER_SECOND // 500
        while not self._stopping.wait(0.002):
            self._producer.poll(0)
            if len(self._producer) > UNANSWERED_MAX:
                continue
            for number in range(self._sent, self._sent + per_turn):
                value = str(number)
                self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
            self._sent += per_turn

    def finish(self) -> int:
        self._stopping.set()
        self._thread.join(ENDING_TIMEOUT_S)
        left = self._producer.flush(ENDING_TIMEOUT_S)
        assert left == 0, f"{left} records were never answered"
        return self._sent

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(5)
        self._producer.purge()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def wait_for_acks(server: Server, load: Load, *, more: int, timeout_s: float = 60) -> None:
    """Until so many more records are acknowledged."""
    enough = len(load.acked) + more

    def is_acked() -> bool:
        assert server.alive, server.output
        return len(load.acked) >= enough

    until(is_acked, lambda: f"{more} answers; {load.failed[:3]}\n{server.output}", timeout_s)


def numbers_in(servers: str, topic: str) -> list[int]:
    """Every number in partition 0, in the order of the log."""
    settings: Settings = {"group.id": "counters", "enable.partition.eof": True}
    consumer = Consumer(librdkafka(servers, **settings))
    found: list[int] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + ENDING_TIMEOUT_S
        while time.monotonic() < deadline:
            # Waits until it has as many as asked for, or the whole timeout: keep that short.
            for message in consumer.consume(10_000, timeout=0.2):
                error = message.error()
                if error is None:
                    found.append(int(message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
                else:
                    raise ClientFailed(str(error))
        raise ClientFailed(f"reading {topic} stopped after {len(found)} records")
    finally:
        consumer.close()
