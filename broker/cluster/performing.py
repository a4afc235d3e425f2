"""Performs the effects that procedures yield: fenced writes to the store, requests to brokers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from ..coordination import znodes
from ..coordination.configs import read_config
from ..coordination.interface import (
    BadVersion,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Op,
    RequestTooLarge,
    Session,
    Set,
)
from ..core.controller.context import Context
from ..core.controller.effects import (
    Breathe,
    CreateStates,
    DeleteNodes,
    DeleteTopicNodes,
    DropDeletionRequests,
    Effect,
    KeepReassignmentRequests,
    Procedure,
    ReadStates,
    ReadUncleanElection,
    Send,
    StoredState,
    WriteAssignment,
    WriteStates,
)
from ..core.partition_state import PartitionState, TopicPartition
from .admin_requests import REASSIGN_PARTITIONS, encode_reassignments
from .channels import Channels
from .reading import Broken, get, read_states
from .store_calls import map_concurrently, until_connected
from .writing import OPS_MAX, FencedWriter, OpRefused

logger = logging.getLogger(__name__)

OPS_PER_CREATION: Final = 2
STATES_AT_ONCE: Final = 50
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"

T = TypeVar("T")


class Perform(Protocol):
    """Runs a procedure to completion."""

    def __call__(self, procedure: Procedure[T], /) -> Awaitable[T]:
        """Return the procedure's result."""
        ...


class Performer:
    """Performs procedures, one effect at a time."""

    def __init__(
        self,
        session: Session,
        writer: FencedWriter,
        context: Context,
        channels: Channels,
        allows_unclean_election: Callable[[], bool],
    ) -> None:
        """`allows_unclean_election`: the current value of the broker's own setting."""
        self._session = session
        self._writer = writer
        self._context = context
        self._channels = channels
        self._allows_unclean_election = allows_unclean_election
        self._with_partitions: set[str] = set()
        """Topics whose znode `partitions` is known to exist."""
        self._perform: dict[type, Callable[[Any], Awaitable[object]]] = {
            ReadStates: self._read_states,
            CreateStates: self._create_states,
            WriteStates: self._write_states,
            ReadUncleanElection: self._read_unclean_election,
            WriteAssignment: self._write_assignment,
            DeleteTopicNodes: self._delete_topic_nodes,
            DeleteNodes: self._delete_nodes,
            DropDeletionRequests: self._drop_deletion_requests,
            KeepReassignmentRequests: self._keep_reassignment_requests,
            Send: self._send,
            Breathe: self._breathe,
        }

    async def perform(self, procedure: Procedure[T]) -> T:
        """Perform everything that a procedure yields, and return its result.

        Raises: what the procedure raises, ControllerMoved, SessionExpired.
        """
        told: object = None
        try:
            while True:
                try:
                    effect: Effect = procedure.send(told)
                except StopIteration as done:
                    result: T = done.value
                    return result
                told = await self._perform[type(effect)](effect)
        finally:
            procedure.close()

    async def _breathe(self, effect: Breathe) -> None:
        await asyncio.sleep(0)

    async def _send(self, effect: Send) -> None:
        self._channels.send(effect.requests, tuple(self._context.brokers.values()))

    # Partition states.

    async def _read_states(self, effect: ReadStates) -> Mapping[TopicPartition, StoredState]:
        found = await read_states(self._session, effect.partitions)
        states = {}
        for key, state in found.items():
            if isinstance(state, Broken):
                logger.error("partition ignored path=%s error=%s", state.path, state.reason)
            else:
                self._with_partitions.add(key[0])
                states[key] = state
        return states

    async def _write_states(self, effect: WriteStates) -> Collection[TopicPartition]:
        states = effect.states
        groups = [states[at : at + STATES_AT_ONCE] for at in range(0, len(states), STATES_AT_ONCE)]
        conflicts = await map_concurrently(self._write_group, groups)
        return {key for keys in conflicts for key in keys}

    async def _write_group(self, states: Sequence[PartitionState]) -> Collection[TopicPartition]:
        """Write all at once, which is cheaper; one by one if that fails.  Return the conflicts."""
        is_retry = False
        if len(states) > 1:
            try:
                await self._writer.write([_set_state(state) for state in states])
            except OpRefused as refused:
                is_retry = refused.is_retry
            except RequestTooLarge:
                pass
            else:
                return ()
        return [state.key for state in states if not await self._write_state(state, is_retry)]

    async def _write_state(self, state: PartitionState, is_retry: bool) -> bool:
        """Return whether it was written, now or by an earlier attempt whose answer was lost."""
        op = _set_state(state)
        try:
            await self._writer.write([op])
        except OpRefused as refused:
            if not isinstance(refused.error, BadVersion | NoNode):
                raise
            may_be_ours = is_retry or refused.is_retry
            return may_be_ours and await self._holds(op.path, op.data, state.partition_epoch)
        return True

    async def _holds(self, path: str, data: bytes, version: int) -> bool:
        """Whether a znode is exactly as an attempt with a lost answer would have left it."""
        found = await get(self._session, path)
        return found is not None and (found[0], found[1].version) == (data, version)

    async def _create_states(self, effect: CreateStates) -> Collection[TopicPartition]:
        in_the_way: set[TopicPartition] = set()
        for ops, states in self._creations(effect.states):
            try:
                await self._writer.write(ops)
            except (OpRefused, RequestTooLarge):  # some of the znodes may exist already
                made = await map_concurrently(self._create_state, states)
                pairs = zip(states, made, strict=True)
                in_the_way.update(state.key for state, is_made in pairs if not is_made)
            self._with_partitions.update(state.topic for state in states)
        return in_the_way

    def _creations(
        self, states: Sequence[PartitionState]
    ) -> Iterator[tuple[list[Op], list[PartitionState]]]:
        """Pack the creations into as few transactions as possible, assuming no znode exists yet."""
        ops: list[Op] = []
        group: list[PartitionState] = []
        begun: set[str] = set()
        for state in states:
            if len(ops) > OPS_MAX - OPS_PER_CREATION - 1:
                yield ops, group
                ops, group = [], []
            if state.topic not in self._with_partitions and state.topic not in begun:
                ops.append(Create(znodes.partitions_path(state.topic)))
                begun.add(state.topic)
            ops.append(Create(znodes.partition_path(*state.key)))
            ops.append(Create(znodes.partition_state_path(*state.key), encode_state(state)))
            group.append(state)
        if group:
            yield ops, group

    async def _create_state(self, state: PartitionState) -> bool:
        """Return whether the state znode was created; missing parents are created first."""
        await self._make(znodes.partitions_path(state.topic))
        await self._make(znodes.partition_path(*state.key))
        path, data = znodes.partition_state_path(*state.key), encode_state(state)
        try:
            await self._writer.write([Create(path, data)])
        except OpRefused as refused:
            if not isinstance(refused.error, NodeExists | NoNode):
                raise
            # An identical znode is this controller's own, from a transaction whose answer was lost.
            return await self._holds(path, data, 0)
        return True

    async def _make(self, path: str) -> None:
        try:
            await self._writer.write([Create(path)])
        except OpRefused as refused:
            if not isinstance(refused.error, NodeExists | NoNode):
                raise

    # Topics.

    async def _read_unclean_election(self, effect: ReadUncleanElection) -> Mapping[str, bool]:
        allowed = await map_concurrently(self._allows_unclean, effect.topics)
        return dict(zip(effect.topics, allowed, strict=True))

    async def _allows_unclean(self, topic: str) -> bool:
        path = znodes.topic_config_path(topic)
        config = await until_connected(lambda: read_config(self._session, path))
        own = config.get(UNCLEAN_ELECTION)
        return self._allows_unclean_election() if own is None else own.lower() == "true"

    async def _write_assignment(self, effect: WriteAssignment) -> None:
        partitions = effect.partitions
        node = znodes.TopicAssignment(
            {partition: its.replicas for partition, its in partitions.items()},
            effect.topic_id,
            {partition: its.adding for partition, its in partitions.items() if its.adding},
            {partition: its.removing for partition, its in partitions.items() if its.removing},
        )
        try:
            await self._writer.write([Set(znodes.topic_path(effect.topic), node.encode())])
        except OpRefused as refused:
            if not isinstance(refused.error, NoNode):
                raise
            logger.warning("assignment not written, the topic was deleted topic=%s", effect.topic)

    async def _delete_topic_nodes(self, effect: DeleteTopicNodes) -> None:
        topic = effect.topic
        self._with_partitions.discard(topic)
        await self._writer.delete_tree(znodes.topic_path(topic))
        await self._writer.delete_if_there(znodes.topic_config_path(topic))
        await self._writer.delete_if_there(znodes.delete_topic_path(topic))

    async def _delete_nodes(self, effect: DeleteNodes) -> None:
        self._with_partitions.difference_update(effect.topics)
        ops = [Delete(path) for path in effect.paths]
        for start in range(0, len(ops), OPS_MAX):
            await self._writer.write(ops[start : start + OPS_MAX])

    async def _drop_deletion_requests(self, effect: DropDeletionRequests) -> None:
        paths = [znodes.delete_topic_path(topic) for topic in effect.topics]
        await map_concurrently(self._writer.delete_if_there, paths)

    async def _keep_reassignment_requests(self, effect: KeepReassignmentRequests) -> None:
        if not effect.partitions:
            await self._writer.delete_if_there(REASSIGN_PARTITIONS)
            return
        data = encode_reassignments(effect.partitions)
        try:
            await self._writer.write([Set(REASSIGN_PARTITIONS, data)])
        except OpRefused as refused:
            if not isinstance(refused.error, NoNode):
                raise
            # Deleting the znode cancels the reassignments in it that have not begun.


def _set_state(state: PartitionState) -> Set:
    path = znodes.partition_state_path(*state.key)
    return Set(path, encode_state(state), state.partition_epoch - 1)


def encode_state(state: PartitionState) -> bytes:
    """The data of a partition's state znode."""
    return znodes.PartitionStateNode(
        state.leader,
        state.leader_epoch,
        state.isr,
        state.controller_epoch,
        int(state.is_recovering),
    ).encode()
