"""A verifiable writer on librdkafka.  `python -m tests.lab.verify.write_librdkafka SPEC`."""

import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from .events import UNKNOWN, Closed, Fatal, Sent, Value, Writer, encode
from .noting import Notes, now_s, spec, tell, told_to_stop

TURN_S: Final = 0.005
TELL_S: Final = 0.1


class LibrdkafkaWriter:
    """Sequences of one writer, round robin over the partitions."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.name: str = told["writer"]
        self.notes = Notes(told["history"])
        self.sent = self.acked = self.failed = self.in_flight = 0
        self.epoch = 0
        self.numbers = [0] * told["partitions"]
        self.dead = False
        self._producer = self._connect()

    def run(self) -> None:
        """Write until told to stop, then wait for all answers."""
        told = self.told
        self.notes.note(Writer(self.name, str(told["acks"]), told["idempotent"], now_s()))
        begin_s = told_s = time.monotonic()
        while not told_to_stop():
            due = int((time.monotonic() - begin_s) * told["rate"]) - self.sent
            room = told["in_flight"] - self.in_flight
            if due > room:  # what could not be sent in its time is not caught up with
                begin_s += (due - room) / told["rate"]
            for _ in range(min(due, room)):
                self._send()
            self._serve(lambda: self._producer.poll(TURN_S))
            if self.dead:
                self._replace()
            if time.monotonic() - told_s > TELL_S:
                told_s = time.monotonic()
                self._tell()
        self._finish()

    def _connect(self) -> Producer:
        settings = {"bootstrap.servers": self.told["servers"], "log_level": 0}
        return Producer({**settings, **self.told["settings"], "error_cb": self._error})

    def _send(self) -> None:
        partition = self.sent % len(self.numbers)
        value = Value(self.name, partition, self.numbers[partition], self.epoch)
        self.numbers[partition] += 1
        self.sent += 1
        self.in_flight += 1
        data = encode(value, self.told["record_bytes"])
        answered = self._answered(value, now_s(), time.monotonic())
        topic = self.told["topic"]
        try:
            self._producer.produce(topic, data, partition=partition, on_delivery=answered)
        except KafkaException as error:  # it has given up, and may not have told yet
            self.in_flight -= 1
            self.failed += 1
            self._error(error.args[0])
            self.notes.note(Sent(*value, UNKNOWN, -1, now_s(), 0.0))

    def _answered(
        self, value: Value, sent_s: float, begin_s: float
    ) -> Callable[[KafkaError | None, Message], None]:
        def answered(error: KafkaError | None, message: Message) -> None:
            self.in_flight -= 1
            code = 0 if error is None else max(error.code(), UNKNOWN)
            self.acked += code == 0
            self.failed += code != 0
            offset = message.offset()
            took_s = round(time.monotonic() - begin_s, 4)
            found = -1 if error is not None or offset is None else offset
            self.notes.note(Sent(*value, code, max(found, -1), sent_s, took_s))

        return answered

    def _error(self, error: KafkaError) -> None:
        if error.fatal():
            self.notes.note(Fatal(self.name, str(error), now_s()))
            self.dead = True

    def _serve(self, call: Callable[[], int]) -> int:
        """Poll or flush: a fatal error is raised there, and not given to the callback."""
        try:
            return call()
        except KafkaException as error:
            self._error(error.args[0])
            return 1

    def _replace(self) -> None:
        """Another producer in place of one that refuses to go on."""
        self._producer.purge()
        self._serve(lambda: self._producer.flush(10))
        self.epoch += 1
        self.numbers = [0] * len(self.numbers)
        self.dead = False
        self._producer = self._connect()

    def _finish(self) -> None:
        while not self.dead and self._serve(lambda: self._producer.flush(1)):
            self._tell()
        if self.dead:
            self._producer.purge()
            self._serve(lambda: self._producer.flush(10))
        self.notes.note(Closed(self.name, now_s()))
        self.notes.flush()
        self._tell()

    def _tell(self) -> None:
        self.notes.flush()
        tell(sent=self.sent, acked=self.acked, failed=self.failed, in_flight=self.in_flight)


if __name__ == "__main__":
    LibrdkafkaWriter(spec()).run()
