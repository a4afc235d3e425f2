"""Control requests: what the controller has decided, done on this broker.

One at a time, whoever sends it: an old and a new controller may talk at once, and are told apart by
their epochs. Source: the checks and their order in KafkaApis and ReplicaManager of Kafka 3.9.2.

What has begun is done to its end, even if the controller dies meanwhile: its successor says the
same again, in leader epochs that are known by then, and is not listened to.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING

from odradek.protocol.errors import ErrorCode, Refused

from ..coordination.interface import Session
from ..coordinators.registry import Coordinators
from ..core.controller.requests import StoppedReplica
from ..core.partition_state import PartitionState, TopicPartition
from ..partitions import roles
from .control_messages import Sender
from .metadata import BrokerInfo

if TYPE_CHECKING:
    from ..local_broker import LocalBroker
    from ..replication.replicator import Replicator

logger = logging.getLogger(__name__)

Codes = dict[TopicPartition, ErrorCode]
Finish = Callable[[Coroutine[object, object, Codes]], Awaitable[Codes]]
UNKNOWN_BROKER_EPOCH = -1


class FullUpdate:
    """The topics that the parts of a full UpdateMetadata name.

    A controller sends one to each registration of a broker. It repeats a part whose answer it has
    not got, and the first copy may be read late: by then there may be topics that it does not name.
    """

    def __init__(self) -> None:
        self._sender: Sender | None = None
        self._named: set[str] | None = None
        """None: the update has ended."""

    def add(
        self, sender: Sender, states: Iterable[PartitionState], *, more_to_come: bool
    ) -> set[str] | None:
        """Take a part; all topics that were named, if this is what ends the update."""
        if self._sender is None or _term(sender) > _term(self._sender):
            self._sender, self._named = sender, set()
        if sender != self._sender:  # of an earlier registration, and read late
            return None
        if self._named is None:
            return None
        self._named.update(state.topic for state in states)
        if more_to_come:
            return None
        named, self._named = self._named, None
        return named


def _term(sender: Sender) -> tuple[int, int]:
    """What rises with each controller, and with each registration of this broker."""
    return sender.controller_epoch, sender.broker_epoch


class ControlRequests:
    """The broker's side of the controller's channel.

    Each method raises Refused if the whole request is refused: STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH, UNKNOWN_SERVER_ERROR (a KRaft controller, as in Kafka), and
    CoordinationError if the store can't be asked for the settings of a topic.
    """

    def __init__(
        self,
        local: "LocalBroker",
        replicator: "Replicator",
        coordinators: Coordinators,
        session: Session,
        finish: Finish,
    ) -> None:
        """`finish` awaits what goes on even if its caller is cancelled."""
        self.controller_epoch = 0
        """Of the latest controller that was heard, or heard of."""
        self._local = local
        self._replicator = replicator
        self._coordinators = coordinators
        self._session = session
        self._finish = finish
        self._turn = asyncio.Lock()
        self._full_update = FullUpdate()

    def heard_of(self, controller_epoch: int) -> None:
        """There is such a controller: no earlier one is to be listened to."""
        self.controller_epoch = max(self.controller_epoch, controller_epoch)

    async def leader_and_isr(self, sender: Sender, states: Sequence[PartitionState]) -> Codes:
        """Lead and follow partitions; one code for each."""
        self._check_broker_epoch(sender)
        return await self._in_turn(sender, lambda: self._roles(sender).take(states))

    async def stop_replicas(self, sender: Sender, stopped: Collection[StoppedReplica]) -> Codes:
        """Stop replicas, and delete those that are to be; one code for each."""
        self._check_broker_epoch(sender)
        local = self._local
        return await self._in_turn(
            sender, lambda: roles.stop(local.replicas, local.clock, stopped, self._stopped)
        )

    async def update_metadata(
        self,
        sender: Sender,
        brokers: Iterable[BrokerInfo],
        states: Iterable[PartitionState],
        *,
        is_full: bool = False,
        more_to_come: bool = False,
    ) -> None:
        """Know the live brokers, and what is new of partitions.

        `is_full`: this is a part of an update that names every partition; `more_to_come`: it is not
        the last part. Topics that no part has named are forgotten.
        """
        self._check_broker_epoch(sender)
        async with self._turn:
            self._check_controller_epoch(sender)
            local = self._local
            have_changed = local.metadata.update_brokers(sender.controller_id, brokers)
            told = list(states)
            gone = local.metadata.update_partitions(told, more_to_come=more_to_come)
            if is_full:
                named = self._full_update.add(sender, told, more_to_come=more_to_come)
                gone += [] if named is None else local.metadata.forget_topics_but(named)
            local.replicas.suspects.told(told)
            self.controller_epoch = sender.controller_epoch
            if have_changed:
                self._replicator.brokers_changed()
            for topic in gone:
                self._coordinators.forget_topic(topic)

    async def _in_turn(self, sender: Sender, work: Callable[[], Awaitable[Codes]]) -> Codes:
        """Wait for what was asked before; then do it."""
        await self._turn.acquire()

        async def begun() -> Codes:
            try:
                self._check_controller_epoch(sender)
                self.controller_epoch = sender.controller_epoch
                return await work()
            finally:
                self._turn.release()

        return await self._finish(begun())

    def _roles(self, sender: Sender) -> roles.Roles:
        local = self._local
        return roles.Roles(
            local.replicas,
            local.clock,
            self._session,
            broker_id=local.broker_id,
            live=local.metadata.brokers,
            controller_epoch=sender.controller_epoch,
            tell=self._roles_changed,
        )

    # Fences.

    def _check_broker_epoch(self, sender: Sender) -> None:
        """Refuse what is meant for this broker's earlier life.  Raises: Refused."""
        if sender.broker_epoch == UNKNOWN_BROKER_EPOCH:
            return
        if sender.is_kraft:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "there is no KRaft controller here")
        if sender.broker_epoch < self._local.broker_epoch:
            raise Refused(ErrorCode.STALE_BROKER_EPOCH)

    def _check_controller_epoch(self, sender: Sender) -> None:
        """Refuse a controller that has a successor.  Raises: Refused."""
        if sender.controller_epoch < self.controller_epoch:
            logger.warning(
                "stale controller refused controller=%d epoch=%d latest=%d",
                sender.controller_id,
                sender.controller_epoch,
                self.controller_epoch,
            )
            raise Refused(ErrorCode.STALE_CONTROLLER_EPOCH)

    # What follows from it elsewhere on this broker.

    def _roles_changed(self, keys: Sequence[TopicPartition]) -> None:
        self._replicator.roles_changed(keys)
        self._coordinators.roles_changed(keys, self._local.replicas.partitions)

    def _stopped(self, keys: Sequence[TopicPartition]) -> None:
        """What a replica that still leads coordinates is still here, as in Kafka."""
        self._replicator.stopped(keys)
        served = self._local.replicas.partitions
        self._coordinators.resign([key for key in keys if key not in served])
