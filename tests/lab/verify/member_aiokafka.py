"""A member of a group on aiokafka.  `python -m tests.lab.verify.member_aiokafka SPEC`."""

import asyncio
import time
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from .events import Closed, Committed, Fatal, Owns, runs
from .noting import Notes, now_s, spec, tell, told_to_stop

POLL_MS: Final = 100
TURN_S: Final = 0.01


class AiokafkaMember(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes where it begins in each partition, all it is given, and each commit that succeeded."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.name: str = told["member"]
        self.group: str = told["group"]
        self.notes = Notes(told["history"])
        self.polled = self.commits = 0
        self._positions: dict[TopicPartition, int] = {}
        self._owned: set[TopicPartition] = set()
        self._consumer = AIOKafkaConsumer(bootstrap_servers=told["servers"], **told["settings"])

    async def run(self) -> None:
        """Consume and commit until told to stop."""
        await self._consumer.start()
        self._consumer.subscribe([self.told["topic"]], listener=self)
        committed_s = time.monotonic()
        while not told_to_stop():
            try:
                found = await self._consumer.getmany(timeout_ms=POLL_MS)
            except KafkaError as error:
                if not error.retriable:
                    self.notes.note(Fatal(self.name, repr(error), now_s()))
                continue
            for where, records in found.items():
                if not await self._begun(where):
                    continue
                values = [(record.offset, record.value) for record in records]
                for event in runs(self.name, where.partition, values, now_s()):
                    self.notes.note(event)
                self._positions[where] = records[-1].offset + 1
                self.polled += len(records)
            if time.monotonic() - committed_s > self.told["commit_ms"] / 1000:
                await self._commit()
                committed_s = time.monotonic()
                self._tell()
        await self._commit()
        await self._consumer.stop()
        self.notes.note(Closed(self.name, now_s()))
        self._tell()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Commit what was polled, while the partitions are still this member's."""
        await self._commit()
        for place in revoked:
            self._positions.pop(place, None)
            self._owned.discard(place)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Note where the group is."""
        for place in assigned:
            asked_s = now_s()
            offset = await self._consumer.committed(place)
            offset = -1 if offset is None else offset
            event = Owns(self.name, self.group, place.partition, offset, asked_s, now_s())
            self.notes.note(event)
            self._owned.add(place)

    async def _begun(self, place: TopicPartition) -> bool:
        """Whether it is this member's: aiokafka gives records while `assigned` is still asking."""
        while place not in self._owned:
            if place not in self._consumer.assignment():
                return False
            await asyncio.sleep(TURN_S)
        return True

    async def _commit(self) -> None:
        wanted = dict(self._positions)
        if not wanted:
            return
        asked_s = now_s()
        try:
            await self._consumer.commit(wanted)
        except KafkaError:
            return  # whoever owns the partitions next begins where an earlier commit says
        self.commits += 1
        for place, offset in wanted.items():
            self.notes.note(
                Committed(self.name, self.group, place.partition, offset, asked_s, now_s())
            )
            if self._positions.get(place) == offset:
                del self._positions[place]

    def _tell(self) -> None:
        self.notes.flush()
        tell(polled=self.polled, commits=self.commits)


async def main() -> None:
    """One member until its end."""
    await AiokafkaMember(spec()).run()


if __name__ == "__main__":
    asyncio.run(main())
