"""A verifiable writer on aiokafka.  `python -m tests.lab.verify.write_aiokafka SPEC`."""

import asyncio
import time
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from .events import UNKNOWN, Closed, Fatal, Sent, Value, Writer, encode
from .noting import Notes, now_s, spec, tell, told_to_stop

TURN_S: Final = 0.01
TELL_S: Final = 0.1
# After these the producer cannot go on: another takes its place.
DEAD: Final = ("OutOfOrderSequenceNumber", "ProducerFenced", "InvalidProducerEpoch")


class AiokafkaWriter:
    """Sequences of one writer, round robin over the partitions."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.name: str = told["writer"]
        self.notes = Notes(told["history"])
        self.sent = self.acked = self.failed = 0
        self.epoch = 0
        self.numbers = [0] * told["partitions"]
        self.dead = False
        self._waiting: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Write until told to stop, then wait for all answers."""
        told = self.told
        self.notes.note(Writer(self.name, str(told["acks"]), told["idempotent"], now_s()))
        producer = await self._connect()
        begin_s = told_s = time.monotonic()
        while not told_to_stop():
            due = int((time.monotonic() - begin_s) * told["rate"]) - self.sent
            room = told["in_flight"] - len(self._waiting)
            if due > room:  # what could not be sent in its time is not caught up with
                begin_s += (due - room) / told["rate"]
            for _ in range(min(due, room)):
                await self._send(producer)
            await asyncio.sleep(TURN_S)
            if self.dead:
                await asyncio.gather(*self._waiting)
                await producer.stop()
                self.epoch += 1
                self.numbers = [0] * len(self.numbers)
                self.dead = False
                producer = await self._connect()
            if time.monotonic() - told_s > TELL_S:
                told_s = time.monotonic()
                self._tell()
        while self._waiting:
            await asyncio.wait(self._waiting, timeout=1)
            self._tell()
        await producer.stop()
        self.notes.note(Closed(self.name, now_s()))
        self._tell()

    async def _connect(self) -> AIOKafkaProducer:
        settings = self.told["settings"]
        producer = AIOKafkaProducer(bootstrap_servers=self.told["servers"], **settings)
        await producer.start()
        return producer

    async def _send(self, producer: AIOKafkaProducer) -> None:
        partition = self.sent % len(self.numbers)
        value = Value(self.name, partition, self.numbers[partition], self.epoch)
        self.numbers[partition] += 1
        self.sent += 1
        data = encode(value, self.told["record_bytes"])
        sent_s, begin_s = now_s(), time.monotonic()
        future = await producer.send(self.told["topic"], data, partition=partition)
        task = asyncio.create_task(self._answered(value, future, sent_s, begin_s))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _answered(
        self, value: Value, future: asyncio.Future[Any], sent_s: float, begin_s: float
    ) -> None:
        code, offset = 0, -1
        try:
            told = await future
            # acks=0: there is no answer, so no offset
            offset = -1 if told is None else told.offset
        except KafkaError as error:
            code = getattr(error, "errno", UNKNOWN)
            code = code if isinstance(code, int) and code > 0 else UNKNOWN
            self._failed(error)
        self.acked += code == 0
        self.failed += code != 0
        took_s = round(time.monotonic() - begin_s, 4)
        self.notes.note(Sent(*value, code, offset, sent_s, took_s))

    def _failed(self, error: KafkaError) -> None:
        if not self.dead and type(error).__name__.startswith(DEAD):
            self.notes.note(Fatal(self.name, repr(error), now_s()))
            self.dead = True

    def _tell(self) -> None:
        self.notes.flush()
        tell(sent=self.sent, acked=self.acked, failed=self.failed, in_flight=len(self._waiting))


if __name__ == "__main__":
    asyncio.run(AiokafkaWriter(spec()).run())
