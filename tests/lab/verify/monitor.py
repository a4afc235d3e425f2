"""Asks every broker again and again what it believes.  `python -m tests.lab.verify.monitor SPEC`.

Only what has changed is noted. A broker that does not answer is asked again on another connection.
"""

import asyncio
import time
from collections.abc import Hashable
from typing import Any, Final

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.schema import Message
from tests.support.connections import AsyncConnection

from .events import Controls, Offset, View
from .noting import Notes, now_s, spec, tell, told_to_stop

EVERY_S: Final = 0.2
ANSWER_TIMEOUT_S: Final = 3.0
LATEST: Final = -1
EARLIEST: Final = -2
COMMITTED: Final = 1
# What is asked of a leader: name, timestamp, isolation level.
ENDS: Final = (("latest", LATEST, 0), ("earliest", EARLIEST, 0), ("stable", LATEST, COMMITTED))


class Monitor:
    """One broker as this process sees it."""

    def __init__(self, told: dict[str, Any], notes: Notes, broker: int, address: list[Any]) -> None:
        self.broker = broker
        self._host, self._port = address
        self._topic: str = told["topic"]
        self._partitions = range(told["partitions"])
        self._groups: list[str] = told["groups"]
        self._notes = notes
        self._known: dict[Hashable, Any] = {}

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    connection = await AsyncConnection.connect(self._port, self._host)
                await self._watch(connection)
            except (OSError, TimeoutError, MalformedMessage):
                await asyncio.sleep(EVERY_S)

    async def _watch(self, connection: AsyncConnection) -> None:
        async def ask(request: Message, version: int) -> Any:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await connection.ask(request, version, client_id="monitor")

        try:
            while True:
                due_s = time.monotonic() + EVERY_S
                self._view(await ask(self._metadata(), 9))
                for which, timestamp, isolation in ENDS:
                    self._ends(which, await ask(self._list(timestamp, isolation), 7))
                if self._groups:
                    self._committed(await ask(self._fetch(), 8))
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        finally:
            connection.writer.close()

    def _metadata(self) -> MetadataRequest:
        topic = MetadataRequestTopic(name=self._topic)
        return MetadataRequest(topics=[topic], allow_auto_topic_creation=False)

    def _list(self, timestamp: int, isolation: int) -> ListOffsetsRequest:
        asked = [
            ListOffsetsPartition(partition_index=index, timestamp=timestamp)
            for index in self._partitions
        ]
        topic = ListOffsetsTopic(name=self._topic, partitions=asked)
        return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic])

    def _fetch(self) -> OffsetFetchRequest:
        topic = OffsetFetchRequestTopics(name=self._topic, partition_indexes=[*self._partitions])
        groups = [OffsetFetchRequestGroup(group_id=name, topics=[topic]) for name in self._groups]
        return OffsetFetchRequest(groups=groups)

    def _view(self, answer: Any) -> None:
        now = now_s()
        if self._changed("controller", answer.controller_id):
            self._notes.note(Controls(self.broker, answer.controller_id, now))
        for topic in answer.topics:
            for at in topic.partitions:
                seen = (at.leader_id, at.leader_epoch, sorted(at.isr_nodes))
                if self._changed(("view", at.partition_index), seen):
                    self._notes.note(View(self.broker, at.partition_index, *seen, now))

    def _ends(self, which: str, answer: Any) -> None:
        now = now_s()
        for at in answer.topics[0].partitions:
            seen = (at.leader_epoch if which != "earliest" else -1, at.offset)
            if at.error_code == 0 and self._changed((which, at.partition_index), seen):
                self._notes.note(Offset(self.broker, at.partition_index, which, *seen, now))

    def _committed(self, answer: Any) -> None:
        now = now_s()
        for group in (group for group in answer.groups if group.error_code == 0):
            for at in group.topics[0].partitions:
                which, seen = f"group {group.group_id}", at.committed_offset
                if at.error_code == 0 and self._changed((which, at.partition_index), seen):
                    self._notes.note(Offset(self.broker, at.partition_index, which, -1, seen, now))

    def _changed(self, key: Hashable, seen: Any) -> bool:
        if self._known.get(key) == seen:
            return False
        self._known[key] = seen
        return True


async def main() -> None:
    """Watch all brokers until told to stop."""
    told = spec()
    notes = Notes(told["history"])
    watching = [
        asyncio.create_task(Monitor(told, notes, int(broker), address).run())
        for broker, address in told["brokers"].items()
    ]
    while not told_to_stop():
        await asyncio.sleep(EVERY_S)
        notes.flush()
        tell(alive=sum(not task.done() for task in watching))
        for task in watching:
            if task.done():
                task.result()
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    notes.flush()


if __name__ == "__main__":
    asyncio.run(main())
