"""How a broker joins a cluster: the cluster's id, its own id, its entry in the store.

Source: KafkaServer's start; registerBroker and checkedEphemeralCreate of Kafka's KafkaZkClient.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Final

from odradek.protocol.primitives import uuid_text
from odradek.storage.directory.meta_properties import MetaProperties

from ..config import Config
from ..coordination import znodes
from ..coordination.acl_znodes import has_acls
from ..coordination.interface import (
    CoordinationError,
    Create,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    Session,
    Set,
    Stat,
    WatchEvent,
)
from ..coordination.json_fields import MalformedZnode
from ..settings.interbroker import DRAWN_BROKER_ID

logger = logging.getLogger(__name__)

SESSION_END_SPARE_MS: Final = 4_000
"""A session may end in the store this long after its timeout."""
SET_AUTHORIZER: Final = (
    "set authorizer.class.name, or odradek.acls.ignore=true to leave the ACLs without effect"
)
LOOK_AGAIN_S: Final = 1.0
"""Check also without an event: our own session may have ended, and its watches with it."""


class CannotJoin(CoordinationError):
    """It is another cluster, or another broker has our identity; the message is one sentence."""


async def check_authorizer(config: Config, session: Session) -> None:
    """Refuse to run without an authorizer where ACLs would not be enforced.  Raises: CannotJoin."""
    if config.authorizer_class_name or config.odradek_acls_ignore:
        return
    if config.zookeeper_connect is None:
        await refuse_unenforced_acls(session)
    else:
        await refuse_authorizer(session)


async def refuse_authorizer(session: Session) -> None:
    """Refuse to run without an authorizer in a cluster that has one.  Raises: CannotJoin.

    Only authorizers create the nodes in ZooKeeper, when they start. Even without an ACL below them
    other brokers may refuse all requests.
    """
    for path in znodes.ACLS:
        if await session.exists(path) is not None:
            raise CannotJoin(
                f"ZooKeeper has the nodes of an authorizer ({path}), and this broker would let "
                f"everybody do everything: {SET_AUTHORIZER}, or delete the nodes if no broker has "
                "an authorizer any more"
            )


async def refuse_unenforced_acls(session: Session) -> None:
    """The same for a broker with its own store, which may have had an authorizer before."""
    if await has_acls(session):
        raise CannotJoin(
            "the store has ACLs, and this broker would let everybody do everything: "
            + SET_AUTHORIZER
        )


async def make_startup_paths(session: Session) -> None:
    """Create the persistent nodes that contain everything else, unless they exist."""
    for path in znodes.STARTUP_PATHS:
        await make_path(session, path)


async def make_path(session: Session, path: str) -> None:
    """Create a persistent node and its parents, unless they exist; others may do the same."""
    parts = path.strip("/").split("/")
    for count in range(1, len(parts) + 1):
        ancestor = "/" + "/".join(parts[:count])
        if await session.exists(ancestor) is None:
            try:
                await session.create(ancestor)
            except NodeExists:
                continue  # another broker was first


async def agree_on_cluster_id(
    session: Session,
    own_cluster_id: str | None,
    randbytes: Callable[[int], bytes],
    *,
    is_own_store: bool = True,
) -> str:
    """The cluster's id; a new cluster gets a new one.

    `own_cluster_id` is the id in the data directory. If the store has no id, or another one, it is
    the wrong store. The exception is a store without an id that `is_own_store`, in the same
    directory: it gets the id back.  Raises: CannotJoin.
    """
    if await session.exists(znodes.CLUSTER_ID) is None:
        if own_cluster_id is not None and not is_own_store:
            raise CannotJoin(
                f"the data directory belongs to the cluster {own_cluster_id}, but ZooKeeper holds "
                "no cluster yet: zookeeper.connect may be wrong"
            )
        await make_path(session, znodes.CLUSTER_ID.rpartition("/")[0])
        cluster_id = own_cluster_id or uuid_text(randbytes(16))
        with contextlib.suppress(NodeExists):  # another broker was first: its id counts
            await session.create(znodes.CLUSTER_ID, znodes.encode_cluster_id(cluster_id))
    data, _ = await session.get(znodes.CLUSTER_ID)
    cluster_id = znodes.decode_cluster_id(data)
    if own_cluster_id is not None and own_cluster_id != cluster_id:
        where = "its own store" if is_own_store else "ZooKeeper"
        raise CannotJoin(
            f"the data directory belongs to the cluster {own_cluster_id}, but {where} holds the "
            f"cluster {cluster_id}: "
            + ("one of them was put there" if is_own_store else "zookeeper.connect may be wrong")
        )
    return cluster_id


async def settle_broker_id(config: Config, owner: MetaProperties | None, session: Session) -> int:
    """broker.id; if that is -1, the id of the data directory's `owner`, or else an unused one.

    `LogDirs.identify` checks whether a broker.id fits the directory.
    """
    if config.broker_id != DRAWN_BROKER_ID or not config.broker_id_generation_enable:
        return config.broker_id
    if owner is not None:
        return owner.broker_id
    await make_path(session, znodes.BROKER_SEQUENCE)
    drawn = await session.set(znodes.BROKER_SEQUENCE, b"")
    return drawn.version + config.reserved_broker_max_id


def registration_of(
    config: Config, ports: Mapping[str, int], *, own_host: str, wall_ms: int
) -> znodes.BrokerRegistration:
    """The registration of this broker.

    `ports` are those that its listeners are bound to; `own_host` is used where no host is given.
    """
    endpoints = tuple(
        znodes.RegisteredEndpoint(
            endpoint.name,
            endpoint.host or own_host,
            endpoint.port or ports[endpoint.name],
            config.security_protocols.get(endpoint.name, "PLAINTEXT"),
        )
        for endpoint in (*config.advertised_endpoints, *config.private_endpoints)
    )
    return znodes.BrokerRegistration(endpoints, wall_ms, rack=config.broker_rack)


class Membership:
    """This broker's node below /brokers/ids, which lives as long as the session.

    If a session that has ended, or is about to end, has left a node there, registration waits until
    it is gone: a broker can be restarted immediately after `kill -9`.
    """

    def __init__(self, session: Session, broker_id: int, *, session_timeout_ms: int) -> None:
        self._session = session
        self._broker_id = broker_id
        self._path = znodes.broker_path(broker_id)
        self._wait_s = (session_timeout_ms + SESSION_END_SPARE_MS) / 1000
        self._session_ids: set[int] = set()
        self.broker_epoch = -1
        """The czxid of the node; -1 before it exists."""

    def lost(self) -> None:
        """The session has ended: the node is gone, or will be.  For `CurrentSession.on_lost`."""
        self.broker_epoch = -1

    async def register(self, registration: znodes.BrokerRegistration) -> int:
        """Register this broker; the broker epoch.  Called again after every end of the session.

        Raises: CannotJoin if another broker has its id or its address.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._wait_s
        waited = False
        changed = asyncio.Event()
        while True:
            self._session_ids.add(self._session.id)
            changed.clear()
            conflict = await self._conflict(registration, lambda _: changed.set())
            if conflict is None:
                stat = await self._enter(registration)
                if stat is not None:
                    break
                continue  # another broker was faster
            left_s = deadline_s - loop.time()
            if left_s <= 0:
                raise CannotJoin(f"{conflict}: two brokers can't share that")
            if not waited:
                logger.warning("%s: waiting up to %.0f s for its session to end", conflict, left_s)
            waited = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, LOOK_AGAIN_S)):
                    await changed.wait()
        self.broker_epoch = stat.czxid
        logger.info("registered broker=%d epoch=%d", self._broker_id, stat.czxid)
        return stat.czxid

    async def _conflict(
        self, registration: znodes.BrokerRegistration, watch: Callable[[WatchEvent], None]
    ) -> str | None:
        """The broker that is in the way; `watch` then observes its node."""
        own = {(end.host, end.port) for end in registration.endpoints}
        for name in await self._session.children(znodes.BROKER_IDS):
            path = f"{znodes.BROKER_IDS}/{name}"
            try:
                data, stat = await self._session.get(path, watch)
            except NoNode:
                continue
            others = _endpoints(path, data)
            if path == self._path:
                if stat.ephemeral_owner in self._session_ids:
                    continue
                where = ", ".join(map(str, others)) or "an unreadable address"
                return f"broker id {name} is taken by a broker at {where}"
            for end in others:
                if (end.host, end.port) in own:
                    return f"the address {end} is taken by broker {name}"
        return None

    async def _enter(self, registration: znodes.BrokerRegistration) -> Stat | None:
        """None if another broker was faster."""
        # Kafka creates and then sets: readers see data version 1.
        ops: list[Op] = [
            Create(self._path, ephemeral=True),
            Set(self._path, registration.encode(), 0),
        ]
        found = await self._session.exists(self._path)
        if found is not None:  # from an earlier session of ours, whose end has not been noticed yet
            if found.ephemeral_owner not in self._session_ids:
                return None
            ops.insert(0, Delete(self._path, found.version))
        try:
            stat = (await self._session.multi(ops))[-1]
        except MultiFailed as failed:
            if isinstance(failed.error, NodeExists) or found is not None:
                return None
            raise
        assert isinstance(stat, Stat)
        return stat


def _endpoints(path: str, data: bytes) -> tuple[znodes.RegisteredEndpoint, ...]:
    """The endpoints in a broker's node; none if it is malformed, which the controller reports."""
    try:
        return znodes.BrokerRegistration.decode(data).endpoints
    except MalformedZnode as error:
        logger.warning("broker node not deleted path=%s reason=%s", path, error)
        return ()
