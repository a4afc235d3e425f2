"""A broker as a member of its cluster: everything that starts, and restarts, with its session.

That is registration, candidacy, the exchange with the controller, and replication. When the session
ends, the registration disappears with it, and the broker is no longer the controller. With the next
session the broker registers with another broker epoch, reads and watches everything again, and is a
candidate as before.
"""

import asyncio
import contextlib
import logging
from collections.abc import Collection
from typing import Final

from odradek.protocol.schema import Message

from ..cluster.election import read_holder
from ..coordination import znodes
from ..coordination.current import CurrentSession
from ..coordination.interface import CoordinationError, NoNode
from ..coordination.json_fields import MalformedZnode
from ..coordinators.registry import Coordinators
from ..core.partition_state import TopicPartition
from ..node import Node
from ..peers.addresses import Peers
from ..peers.controller_client import ControllerClient
from ..tasks import TaskSupervisor
from .membership import Membership, check_authorizer

logger = logging.getLogger(__name__)

KNOWN_SPARE_MS: Final = 6_000
"""A dead controller is replaced at most this long after its session has timed out."""
REPORT_RETRY_S: Final = 1.0


class Member:
    """The connection between a node and its cluster."""

    def __init__(
        self,
        node: Node,
        session: CurrentSession,
        tasks: TaskSupervisor,
        peers: Peers,
        client: ControllerClient,
        coordinators: Coordinators,
    ) -> None:
        self._node = node
        self._local = node.local
        self._session = session
        self._tasks = tasks
        self._peers = peers
        self._client = client
        self._coordinators = coordinators
        self._timeout_ms = node.config.zookeeper_session_timeout_ms
        self._membership = Membership(session, node.broker_id, session_timeout_ms=self._timeout_ms)
        self._registration: znodes.BrokerRegistration | None = None
        node.controller.on_kraft = session.give_up
        node.replicas.on_log_dir_failed = self._log_dir_failed
        node.dynamic_configs.on_broker_changed.append(node.replicator.settings_changed)
        node.dynamic_configs.on_topic_changed.append(node.replicator.throttles_changed)

    async def register(self, registration: znodes.BrokerRegistration) -> None:
        """Register the broker, and again after every end of the session.

        Raises: CannotJoin, KRaftControls.
        """
        self._registration = registration
        await self._enter(registration)
        self._session.on_lost.append(self._lost)
        self._session.on_renewed.append(self._renew)

    async def move_to_rack(self, rack: str | None) -> None:
        """Register with another rack.  Raises: CoordinationError."""
        assert self._registration is not None
        self._registration = self._registration._replace(rack=rack)
        path = znodes.broker_path(self._node.broker_id)
        await self._session.set(path, self._registration.encode())

    async def _enter(self, registration: znodes.BrokerRegistration) -> None:
        """Register, unless a KRaft controller leads or ACLs would not be enforced; refuse
        earlier controllers.

        An earlier controller that has not noticed its end yet would see a broker appear that knows
        of no other controller, and would make it lead as it did before its restart.  Raises:
        CannotJoin, KRaftControls.
        """
        await check_authorizer(self._node.config, self._session)
        await read_holder(self._session)
        with contextlib.suppress(NoNode, MalformedZnode):  # controller candidates report it
            data, _ = await self._session.get(znodes.CONTROLLER_EPOCH)
            self._node.control.heard_of(znodes.decode_controller_epoch(data))
        self._local.broker_epoch = await self._membership.register(registration)

    async def begin(self) -> None:
        """Find the controller, or become it; return once it has sent its state to this broker.

        Raises: KRaftControls.
        """
        await self._node.dynamic_configs.load()
        self._tasks.spawn(self._node.dynamic_configs.run(), "config changes")
        if self._node.acls is not None:
            self._tasks.spawn(self._node.acls.run(), "ACL changes")
        self._tasks.spawn(self._node.replicator.run(), "look for lagging followers")
        if self._node.config.zookeeper_connect is not None:
            from .beside_kafka import warn_beside_kafka  # not needed by a broker that is alone

            warning = warn_beside_kafka(self._node.metadata, self._peers, self._node.broker_id)
            self._tasks.spawn(warning, "look for Apache Kafka's brokers")
        await self._node.controller.start()
        await self._node.controller.settled()
        await self._until_known()

    async def ask_controller(self, request: Message, version: int) -> Message:
        """Send the controller a request, once; see `ControllerClient.ask_once`."""
        return await self._client.ask_once(request, version)

    async def hand_over(self) -> None:
        """Ask the controller to move leadership away from this broker, as far as possible."""
        from .controlled_shutdown import hand_over  # not needed to start

        node = self._node
        await hand_over(
            self._client,
            node.metadata,
            node.config,
            version=self._peers.versions.controlled_shutdown,
            broker_id=node.broker_id,
            broker_epoch=lambda: self._local.broker_epoch,
        )

    async def retire(self) -> None:
        """Stop being a candidate, and the controller."""
        await self._node.controller.stop()

    def end(self) -> None:
        """Stop sending requests and being the controller; the nodes disappear with the session."""
        self._node.producer_ids.close()
        self._client.close()
        self._node.controller.lost()

    def _lost(self) -> None:
        self._local.broker_epoch = -1
        self._membership.lost()
        self._node.controller.lost()

    async def _renew(self) -> None:
        assert self._registration is not None
        await self._enter(self._registration)
        await self._node.dynamic_configs.renew()
        if self._node.acls is not None:
            await self._node.acls.renew()
        await self._node.controller.renewed()

    async def _until_known(self) -> None:
        """Wait for the controller's first UpdateMetadata; clients get no answer before it."""
        metadata, broker_id = self._node.metadata, self._node.broker_id
        try:
            async with asyncio.timeout((self._timeout_ms + KNOWN_SPARE_MS) / 1000):
                await metadata.wait_until(
                    lambda: metadata.is_told and broker_id in metadata.brokers
                )
        except TimeoutError:
            logger.warning("no controller has sent metadata yet: serving without it")

    def _log_dir_failed(self, offline: Collection[TopicPartition]) -> None:
        """Resign from what was in a failed directory; the controller asks what is left."""
        node = self._node
        self._coordinators.resign(offline)
        node.replicator.stopped(offline)
        self._tasks.spawn(self._report_log_dir(), "log directory failed")

    async def _report_log_dir(self) -> None:
        event = znodes.LogDirEvent(self._node.broker_id).encode()
        while True:
            try:
                await self._session.create(znodes.LOG_DIR_EVENT_PREFIX, event, sequential=True)
            except CoordinationError as error:
                logger.warning("failed log directory not reported yet reason=%s", error)
                await asyncio.sleep(REPORT_RETRY_S)
            else:
                return
