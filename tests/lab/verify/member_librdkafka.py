"""A member of a group on librdkafka.  `python -m tests.lab.verify.member_librdkafka SPEC`."""

import time
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from .events import Closed, Committed, Fatal, Owns, runs
from .noting import Notes, now_s, spec, tell, told_to_stop

AT_ONCE: Final = 1000
COMMITTED_TIMEOUT_S: Final = 60.0


class LibrdkafkaMember:
    """Notes where it begins in each partition, all it is given, and each commit that succeeded."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.name: str = told["member"]
        self.group: str = told["group"]
        self.notes = Notes(told["history"])
        self.polled = self.commits = 0
        self._positions: dict[int, int] = {}
        settings = {"bootstrap.servers": told["servers"], "log_level": 0, **told["settings"]}
        self._consumer = Consumer({**settings, "error_cb": self._error})

    def run(self) -> None:
        """Consume and commit until told to stop."""
        self._consumer.subscribe(
            [self.told["topic"]],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )
        committed_s = time.monotonic()
        while not told_to_stop():
            self._poll()
            if time.monotonic() - committed_s > self.told["commit_ms"] / 1000:
                self._commit()
                committed_s = time.monotonic()
                self._tell()
        self._commit()
        self._consumer.close()
        self.notes.note(Closed(self.name, now_s()))
        self._tell()

    def _poll(self) -> None:
        found: dict[int, list[tuple[int, bytes]]] = {}
        for message in self._consumer.consume(AT_ONCE, timeout=0.1):
            if message.error() is not None:
                self._error(message.error())
                continue
            partition, offset, value = message.partition(), message.offset(), message.value()
            found.setdefault(partition, []).append((offset, value or b""))
        for partition, records in found.items():
            for event in runs(self.name, partition, records, now_s()):
                self.notes.note(event)
            self._positions[partition] = records[-1][0] + 1
            self.polled += len(records)

    def _commit(self) -> None:
        wanted = dict(self._positions)
        if not wanted:
            return
        asked_s = now_s()
        offsets = [TopicPartition(self.told["topic"], p, offset) for p, offset in wanted.items()]
        try:
            answers = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return  # whoever owns the partitions next begins where an earlier commit says
        self.commits += 1
        for answer in answers or []:
            if answer.error is None:
                committed = Committed(
                    self.name, self.group, answer.partition, answer.offset, asked_s, now_s()
                )
                self.notes.note(committed)
                if self._positions.get(answer.partition) == answer.offset:
                    del self._positions[answer.partition]

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        asked_s = now_s()
        found = consumer.committed(partitions, timeout=COMMITTED_TIMEOUT_S)
        for place in found:
            if place.error is not None:
                self.notes.note(Fatal(self.name, str(place.error), now_s()))
            offset = place.offset if place.offset >= 0 else -1
            event = Owns(self.name, self.group, place.partition, offset, asked_s, now_s())
            self.notes.note(event)
            if offset < 0:
                place.offset = OFFSET_BEGINNING
        consumer.assign(found)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()
        self._lost(consumer, partitions)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for place in partitions:
            self._positions.pop(place.partition, None)

    def _error(self, error: KafkaError) -> None:
        if error.fatal() or not (error.retriable() or error.code() < 0):
            self.notes.note(Fatal(self.name, str(error), now_s()))

    def _tell(self) -> None:
        self.notes.flush()
        tell(polled=self.polled, commits=self.commits)


if __name__ == "__main__":
    LibrdkafkaMember(spec()).run()
