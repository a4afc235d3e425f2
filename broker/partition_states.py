"""What the controller writes: the partitions' state nodes, and blocks of producer ids.

Every write is fenced by the version of /controller_epoch, so that a controller that was replaced
can change nothing.
"""

from collections.abc import Callable, Sequence
from typing import Final

from odradek.protocol.primitives import ZERO_UUID

from .coordination import znodes
from .coordination.interface import BadVersion, Check, MultiFailed, NoNode, Op, Session, Set
from .core.elections import Leadership
from .core.partition_state import PartitionState

OPS_PER_MULTI_MAX: Final = 500
FENCE_INDEX: Final = 0  # in every multi

PRODUCER_ID_BLOCK_SIZE: Final = 1000
_PRODUCER_ID_MAX: Final = (1 << 63) - 1

Decide = Callable[[PartitionState | None], Leadership]


class PartitionStates:
    """The state nodes; the epochs are those of this broker's time as controller."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.controller_epoch = 0
        self.epoch_version = 0

    async def read(
        self, topic: str, assignment: znodes.TopicAssignment, partition: int
    ) -> PartitionState | None:
        """What is written of a partition; None if nobody has ever led it."""
        try:
            data, stat = await self._session.get(znodes.partition_state_path(topic, partition))
        except NoNode:
            return None
        node = znodes.PartitionStateNode.decode(data)
        return PartitionState(
            topic=topic,
            topic_id=assignment.topic_id or ZERO_UUID,
            partition=partition,
            leader=node.leader,
            leader_epoch=node.leader_epoch,
            isr=node.isr,
            replicas=assignment.partitions[partition],
            partition_epoch=stat.version,
            controller_epoch=node.controller_epoch,
        )

    async def change(
        self, topic: str, assignment: znodes.TopicAssignment, partition: int, decide: Decide
    ) -> tuple[PartitionState, Leadership]:
        """Give a partition another leadership and a new leader epoch; it must have been led.

        Raises: Refused (what `decide` raises), MultiFailed.
        """
        while True:
            state = await self.read(topic, assignment, partition)
            leadership = decide(state)
            assert state is not None
            changed = state._replace(
                leader=leadership.leader,
                isr=leadership.isr,
                leader_epoch=state.leader_epoch + 1,
                partition_epoch=state.partition_epoch + 1,
                controller_epoch=self.controller_epoch,
            )
            path = znodes.partition_state_path(topic, partition)
            data = encode_state(changed, is_recovering=leadership.is_unclean)
            try:
                await self.write([Set(path, data, state.partition_epoch)])
            except MultiFailed as failed:
                if failed.index == FENCE_INDEX or not isinstance(failed.error, BadVersion):
                    raise
                continue  # the leader has changed the in-sync replicas meanwhile
            return changed, leadership

    async def allocate_producer_ids(self, broker_id: int) -> range:
        """A block of producer ids that no broker has had.  Raises: MultiFailed."""
        while True:
            data, stat = await self._session.get(znodes.PRODUCER_ID_BLOCK)
            first = znodes.ProducerIdBlock.decode(data).producer_id_last + 1 if data else 0
            last = first + PRODUCER_ID_BLOCK_SIZE - 1
            if last > _PRODUCER_ID_MAX:
                raise OverflowError("all producer ids have been handed out")
            block = znodes.ProducerIdBlock(broker_id, first, last)
            try:
                await self.write([Set(znodes.PRODUCER_ID_BLOCK, block.encode(), stat.version)])
            except MultiFailed as failed:
                if failed.index == FENCE_INDEX:
                    raise
                continue  # another broker was first
            return range(first, last + 1)

    async def write(self, ops: Sequence[Op]) -> None:
        """Write, unless somebody else is controller by now.  Raises: MultiFailed."""
        fence = Check(znodes.CONTROLLER_EPOCH, self.epoch_version)
        for start in range(0, len(ops), OPS_PER_MULTI_MAX):
            await self._session.multi([fence, *ops[start : start + OPS_PER_MULTI_MAX]])


def encode_state(state: PartitionState, *, is_recovering: bool = False) -> bytes:
    """`is_recovering`: until the next change of the in-sync replicas (KIP-704)."""
    return znodes.PartitionStateNode(
        state.leader, state.leader_epoch, state.isr, state.controller_epoch, int(is_recovering)
    ).encode()
