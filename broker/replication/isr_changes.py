"""Proposes the in-sync sets that leaders here want to the controller (AlterPartition).

At most one request is in flight; it contains all proposals that wait when it is built.
Source: AlterPartitionManager of Kafka 3.9.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from odradek.protocol.errors import error_name
from odradek.protocol.messages.k56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
    PartitionData,
    TopicData,
)
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.schema import Message

from ..core.isr import Outcome, Proposal, outcome_of
from ..core.partition import Partition
from ..core.partition_state import TopicPartition
from ..peers.peer import PeerFailed
from ..peers.versions import InterBrokerVersions
from ..tasks import TaskSupervisor

if TYPE_CHECKING:
    from ..local_broker import LocalBroker

logger = logging.getLogger(__name__)

RETRY_PAUSE_S: Final = 0.05


class Changed(NamedTuple):
    """The change of one in-sync set."""

    key: TopicPartition
    left: set[int]
    joined: set[int]


Proposed = dict[TopicPartition, tuple[Partition, Proposal]]


class AsksController(Protocol):
    """The part of `ControllerClient` that is needed here."""

    def ask(self, request: Message, version: int) -> Awaitable[Message]:
        """The answer of a controller.  Raises: PeerFailed once it is closed."""
        ...


class IsrChanges:
    """Proposes in-sync sets, and tells the partitions the results."""

    def __init__(
        self,
        controller: AsksController,
        versions: InterBrokerVersions,
        tasks: TaskSupervisor,
        local: "LocalBroker",
    ) -> None:
        self._controller = controller
        self._versions = versions
        self._tasks = tasks
        self._local = local
        self._waiting: dict[TopicPartition, Partition] = {}
        self._is_asking = False
        self._last_error = 0

    def propose(self, partition: Partition) -> None:
        """Request the set that the partition's leader wants, in the next request."""
        self._waiting[partition.state.key] = partition
        if not self._is_asking:
            self._is_asking = True
            self._tasks.spawn(self._ask_for_all(), "alter partitions")

    async def _ask_for_all(self) -> None:
        try:
            while proposed := self._take():
                must_pause = await self._ask(proposed)
                if must_pause:
                    await asyncio.sleep(RETRY_PAUSE_S)
        except PeerFailed:  # closed: the broker is stopping
            self._waiting.clear()
        finally:
            self._is_asking = False

    def _take(self) -> Proposed:
        """The waiting proposals that are still valid."""
        waiting, self._waiting = self._waiting, {}
        proposed: Proposed = {}
        for key, partition in waiting.items():
            proposal = partition.proposal
            if proposal is not None and self._local.replicas.partitions.get(key) is partition:
                proposed[key] = partition, proposal
        return proposed

    async def _ask(self, proposed: Proposed) -> bool:
        """Ask once; whether to ask again after a while.  Raises: PeerFailed."""
        by_id = all(partition.state.topic_id != ZERO_UUID for partition, _ in proposed.values())
        versions = self._versions
        version = versions.alter_partition if by_id else versions.alter_partition_by_name
        response = await self._controller.ask(self._request(proposed), version)
        assert isinstance(response, AlterPartitionResponse)
        if response.error_code:
            if response.error_code != self._last_error:  # log once, not at every retry
                logger.warning("ISRs not changed error=%s", error_name(response.error_code))
            self._last_error = response.error_code
            self._again(proposed)
            return True
        self._last_error = 0
        names = {partition.state.topic_id: key[0] for key, (partition, _) in proposed.items()}
        must_pause = False
        changed: list[Changed] = []
        for topic in response.topics:
            name = topic.topic_name or names.get(topic.topic_id, "")
            for data in topic.partitions:
                found = proposed.pop((name, data.partition_index), None)
                if found is not None and self._settle(*found, data, changed):
                    self._waiting.setdefault(found[0].state.key, found[0])
                    must_pause = True
        _say_changed(changed)
        self._again(proposed)  # the proposals that the answer does not mention
        return must_pause or bool(proposed)

    def _again(self, proposed: Proposed) -> None:
        for key, (partition, _) in proposed.items():
            self._waiting.setdefault(key, partition)

    def _request(self, proposed: Proposed) -> AlterPartitionRequest:
        topics: dict[str, TopicData] = {}
        for (name, index), (partition, proposal) in proposed.items():
            topic = topics.get(name)
            if topic is None:
                topic_id = partition.state.topic_id
                topic = topics[name] = TopicData(topic_name=name, topic_id=topic_id)
            isr = proposal.isr
            topic.partitions.append(
                PartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr=list(isr),
                    new_isr_with_epochs=[BrokerState(broker_id=replica) for replica in isr],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._local.broker_id,
            broker_epoch=self._local.broker_epoch,
            topics=list(topics.values()),
        )

    @staticmethod
    def _settle(
        partition: Partition,
        proposal: Proposal,
        data: AlterPartitionResponsePartitionData,
        changed: list["Changed"],
    ) -> bool:
        """Tell the partition the result; whether to ask again."""
        state = partition.state
        if data.error_code:
            # A follower that stops, or has just started, is refused at every fetch for a while.
            usual = outcome_of(data.error_code) is Outcome.REVERT
            logger.log(
                logging.DEBUG if usual else logging.WARNING,
                "ISR not changed topic=%s partition=%d isr=%s wanted=%s error=%s",
                state.topic,
                state.partition,
                proposal.pending.isr,
                proposal.isr,
                error_name(data.error_code),
            )
            return partition.isr_refused(proposal, data.error_code)
        partition.isr_altered(proposal, data.isr, data.leader_epoch, data.partition_epoch)
        logger.debug(
            "ISR changed topic=%s partition=%d isr=%s was=%s",
            state.topic,
            state.partition,
            tuple(data.isr),
            proposal.pending.isr,
        )
        before, now = set(proposal.pending.isr), set(data.isr)
        changed.append(Changed(state.key, left=before - now, joined=now - before))
        return False


def _say_changed(changed: Sequence[Changed]) -> None:
    """Log one line for all sets that a broker has left or joined."""
    left: dict[int, list[TopicPartition]] = {}
    joined: dict[int, list[TopicPartition]] = {}
    for change in changed:
        for broker_id in change.left:
            left.setdefault(broker_id, []).append(change.key)
        for broker_id in change.joined:
            joined.setdefault(broker_id, []).append(change.key)
    for what, found in (("left", left), ("joined", joined)):
        for broker_id, keys in sorted(found.items()):
            logger.info(
                "ISRs %s broker=%d count=%d topic=%s partition=%d",
                what,
                broker_id,
                len(keys),
                *keys[0],
            )
