"""Controller election: reading /controller, standing for it and stepping down.

The broker that creates the znode and increments /controller_epoch in one transaction wins. If the
answer is lost, the candidate reads both znodes to learn the outcome.
"""

import asyncio
import contextlib
import json
import logging
from typing import Final, NamedTuple

from ..coordination import znodes
from ..coordination.interface import (
    BadVersion,
    Check,
    CoordinationError,
    CoordinationLost,
    Create,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    Session,
    Set,
    Watch,
)
from ..coordination.json_fields import INT32_MAX, MalformedZnode
from .store_calls import RETRY_BACKOFF_S, until_connected

logger = logging.getLogger(__name__)

NOBODY: Final = -1
VERSIONS_KNOWN: Final = (1, 2)


class KRaftControls(CoordinationError):
    """The controller of the cluster is not a broker in ZooKeeper mode."""


class Holder(NamedTuple):
    """The holder of /controller."""

    broker_id: int
    session_id: int


class Mandate(NamedTuple):
    """The result of an election: the epoch, and its znode's version, which fences all writes."""

    controller_epoch: int
    epoch_version: int


async def read_holder(session: Session, watch: Watch | None = None) -> Holder | None:
    """The current controller; None: there is none.  Raises: KRaftControls."""
    while True:
        if await until_connected(lambda: session.exists(znodes.CONTROLLER, watch)) is None:
            return None
        try:
            data, stat = await until_connected(lambda: session.get(znodes.CONTROLLER))
        except NoNode:
            continue
        return Holder(_decode(data), stat.ephemeral_owner)


def _decode(data: bytes) -> int:
    """The broker id, or NOBODY if the znode is malformed.  Raises: KRaftControls."""
    try:
        node = znodes.ControllerNode.decode(data)
    except MalformedZnode as error:
        logger.error("controller node unreadable path=%s error=%s", znodes.CONTROLLER, error)
        return NOBODY
    if node.kraft_controller_epoch > -1:
        raise KRaftControls(
            f"{znodes.CONTROLLER} is held by a KRaft controller (epoch "
            f"{node.kraft_controller_epoch}): the cluster is being migrated, and this broker "
            "knows only ZooKeeper mode"
        )
    version = json.loads(data).get("version")
    if version not in VERSIONS_KNOWN:
        raise KRaftControls(f"{znodes.CONTROLLER} has version {version!r}, which nobody here knows")
    return node.broker_id


async def stand(session: Session, broker_id: int, wall_ms: int) -> Mandate | None:
    """Try to become the controller while there is none; None: another broker was faster.

    Raises: MalformedZnode (no epoch that could be incremented), SessionExpired.
    """
    read = await _read_epoch(session)
    if read.controller_epoch == INT32_MAX:
        raise MalformedZnode(f"{znodes.CONTROLLER_EPOCH} is {INT32_MAX}: no epoch comes after it")
    mandate = Mandate(read.controller_epoch + 1, read.epoch_version + 1)
    node = znodes.ControllerNode(broker_id, wall_ms).encode()
    epoch = znodes.encode_controller_epoch(mandate.controller_epoch)
    while True:
        try:
            await session.multi(
                [
                    Create(znodes.CONTROLLER, node, ephemeral=True),
                    Set(znodes.CONTROLLER_EPOCH, epoch, read.epoch_version),
                ]
            )
        except CoordinationLost:  # the next attempt shows whether it was applied
            await asyncio.sleep(RETRY_BACKOFF_S)
        except MultiFailed as failed:
            if not isinstance(failed.error, NodeExists | BadVersion | NoNode):
                raise
            return mandate if await _has_won(session, mandate) else None
        else:
            return mandate


async def _read_epoch(session: Session) -> Mandate:
    with contextlib.suppress(NodeExists):  # another broker was faster in a new cluster
        if await until_connected(lambda: session.exists(znodes.CONTROLLER_EPOCH)) is None:
            first = znodes.encode_controller_epoch(0)
            await until_connected(lambda: session.create(znodes.CONTROLLER_EPOCH, first))
    data, stat = await until_connected(lambda: session.get(znodes.CONTROLLER_EPOCH))
    return Mandate(znodes.decode_controller_epoch(data), stat.version)


async def _has_won(session: Session, mandate: Mandate) -> bool:
    """Whether this session won the election although its answer was lost."""
    holder = await read_holder(session)
    return (
        holder is not None
        and holder.session_id == session.id
        and await _read_epoch(session) == mandate
    )


async def step_down(session: Session, mandate: Mandate) -> None:
    """Delete /controller if this mandate still holds it; wait for a connection if necessary.

    Otherwise the znode would last as long as the session, and the cluster would have no controller.
    """
    ops: list[Op] = [
        Check(znodes.CONTROLLER_EPOCH, mandate.epoch_version),
        Delete(znodes.CONTROLLER),
    ]
    with contextlib.suppress(CoordinationError):  # it is gone, or ends with the session
        await until_connected(lambda: session.multi(ops))
