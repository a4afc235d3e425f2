"""Control requests: applies the controller's decisions to this broker.

Requests are handled one at a time, whoever sends them: an old and a new controller may send at
once, and are told apart by their epochs. Source: the checks and their order in KafkaApis and
ReplicaManager of Kafka 3.9.2.

A request that has begun is completed even if the controller dies meanwhile: its successor would
send the same again in leader epochs that are already known by then, and the request would be
ignored.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
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

    A controller sends a full update for each registration of a broker. It resends a part that was
    not answered, and the first copy may be read late: by then there may be topics that it does not
    name.
    """

    def __init__(self) -> None:
        self._sender: Sender | None = None
        self._named: set[str] | None = None
        """None: the update has ended."""

    def add(
        self, sender: Sender, states: Iterable[PartitionState], *, more_to_come: bool
    ) -> set[str] | None:
        """Add a part; if it completes the update, return all topics that were named."""
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
    """The receiver of the controller's requests.

    Each method raises Refused if the whole request is refused: STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH, UNKNOWN_SERVER_ERROR (a KRaft controller, as in Kafka), and
    CoordinationError if the settings of a topic can't be read from the store.
    """

    def __init__(
        self,
        local: "LocalBroker",
        replicator: "Replicator",
        coordinators: Coordinators,
        session: Session,
        finish: Finish,
    ) -> None:
        """`finish` awaits a coroutine to its end, even if its caller is cancelled."""
        self.controller_epoch = 0
        """The epoch of the latest controller that sent a request or is known from elsewhere."""
        self._local = local
        self._replicator = replicator
        self._coordinators = coordinators
        self._session = session
        self._finish = finish
        self._turn = asyncio.Lock()
        self._full_update = FullUpdate()

    def heard_of(self, controller_epoch: int) -> None:
        """Note a controller epoch: requests of earlier controllers are refused."""
        self.controller_epoch = max(self.controller_epoch, controller_epoch)

    async def leader_and_isr(self, sender: Sender, states: Iterable[PartitionState]) -> Codes:
        """Lead and follow partitions; one code for each."""
        self._check_broker_epoch(sender)
        return await self._in_turn(sender, lambda: self._roles(sender).take(list(states)))

    async def stop_replicas(self, sender: Sender, stopped: Iterable[StoppedReplica]) -> Codes:
        """Stop replicas, and delete those that are to be; one code for each."""
        self._check_broker_epoch(sender)
        local = self._local
        return await self._in_turn(
            sender, lambda: roles.stop(local.replicas, local.clock, list(stopped), self._stopped)
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
        """Apply the live brokers and changed partitions.

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
        """Wait for earlier requests; then do the work."""
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
        """Refuse a request for an earlier registration of this broker.  Raises: Refused."""
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

    # Effects elsewhere on this broker.

    def _roles_changed(self, keys: Sequence[TopicPartition]) -> None:
        self._replicator.roles_changed(keys)
        self._coordinators.roles_changed(keys, self._local.replicas.partitions)

    def _stopped(self, keys: Sequence[TopicPartition]) -> None:
        """The coordinator of a replica that still leads stays here, as in Kafka."""
        self._replicator.stopped(keys)
        served = self._local.replicas.partitions
        self._coordinators.resign([key for key in keys if key not in served])
