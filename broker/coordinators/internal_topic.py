"""The topic in which a coordinator keeps its state, one partition for each share of its keys.

A key (a group id, a transactional id) belongs to one partition, and the broker that leads that
partition coordinates it. Which one depends on the number of partitions, which UpdateMetadata does
not tell a broker: it omits partitions that never had a leader. So the number is read from the
store, and only once, as in Kafka: if partitions are added later, keys are not looked up elsewhere.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.primitives import ZERO_UUID

from ..coordination import znodes
from ..coordination.interface import CoordinationError, Session
from ..coordination.json_fields import MalformedZnode
from ..core.partitioner import partition_of
from ..member.metadata import BrokerInfo

if TYPE_CHECKING:
    from ..administration.topics import Topics
    from ..config import Config
    from ..local_broker import LocalBroker

logger = logging.getLogger(__name__)

CREATE_TIMEOUT_MS: Final = 10_000
SHORTAGE_SILENCE_MS: Final = 60_000


class TopicPlan(NamedTuple):
    """With what a coordinator creates its topic."""

    partitions: int
    replication_factor: int
    configs: dict[str, str]


class InternalTopic:
    """The topic of one coordinator."""

    def __init__(
        self,
        name: str,
        plan: "Callable[[Config], TopicPlan]",
        local: "LocalBroker",
        administration: "Topics",
        session: Session,
    ) -> None:
        self.name = name
        self._plan = plan
        self._local = local
        self._metadata = local.metadata
        self._administration = administration
        self._session = session
        self._count = 0
        self._counted_id = ZERO_UUID
        self._one_by_one = asyncio.Lock()
        self._shortage_silent_until_ms = 0

    # The partition of a key.

    def partition_of(self, key: str) -> int | None:
        """The partition of a key; None: call `count` first."""
        return partition_of(key, self._count) if self._is_counted else None

    @property
    def _is_counted(self) -> bool:
        info = self._metadata.topics.get(self.name)
        ids = {self._counted_id} if info is None else {self._counted_id, info.topic_id}
        return self._count > 0 and len(ids - {ZERO_UUID}) <= 1

    def forget(self) -> None:
        """Forget the number of partitions, because the topic was deleted."""
        self._count = 0

    async def count(self) -> None:
        """Find the number of partitions, unless it is known.

        Raises: Refused (COORDINATOR_NOT_AVAILABLE).
        """
        async with self._one_by_one:
            if self._is_counted:
                return
            try:
                data, _ = await self._session.get(znodes.topic_path(self.name))
                assignment = znodes.TopicAssignment.decode(data)
            except (CoordinationError, MalformedZnode) as error:
                raise self._unknown(str(error)) from None
            self._count = len(assignment.partitions)
            self._counted_id = assignment.topic_id or ZERO_UUID
            if not self._is_counted:
                raise self._unknown("it is another topic by now")

    def _unknown(self, why: str) -> Refused:
        return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.name} is not counted: {why}")

    async def find_partition(self, key: str, *, timeout_ms: int = CREATE_TIMEOUT_MS) -> int:
        """The partition of a key; creates the topic if it does not exist.

        Raises: Refused (COORDINATOR_NOT_AVAILABLE).
        """
        if self.name not in self._metadata.topics:
            self.forget()
            try:
                await self.create(timeout_ms=timeout_ms)
            except Refused as refused:
                self.say_shortage(refused)
                raise Refused(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.name}: {refused.message}"
                ) from None
        number = self.partition_of(key)
        if number is None:
            await self.count()
            number = self.partition_of(key)
            assert number is not None
        return number

    # Its coordinator.

    async def coordinator_of(self, key: str) -> BrokerInfo:
        """The broker that leads the key's partition; creates the topic if it does not exist.

        Raises: Refused (COORDINATOR_NOT_AVAILABLE).
        """
        number = await self.find_partition(key)
        state = self._metadata.partition(self.name, number)
        broker = self._metadata.brokers.get(-1 if state is None else state.leader)
        if broker is None:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.name} has no leader")
        return broker

    async def create(self, *, timeout_ms: int) -> None:
        """Create the topic, unless it exists.  Raises: Refused."""
        plan = self._plan(self._local.config)
        await self._administration.create_if_absent(
            self.name,
            partitions=plan.partitions,
            replication_factor=plan.replication_factor,
            configs=plan.configs,
            timeout_ms=timeout_ms,
        )

    def say_shortage(self, refused: Refused) -> None:
        """Log, once a minute, that the topic can't be had."""
        now_ms = self._local.clock.now_ms()
        if now_ms >= self._shortage_silent_until_ms:
            self._shortage_silent_until_ms = now_ms + SHORTAGE_SILENCE_MS
            logger.error("no coordinator topic=%s reason=%s", self.name, refused.message)
