"""How a broker becomes part of a cluster: the cluster's id, and its own entry in the store."""

import contextlib
from collections.abc import Callable, Sequence

from odradek.protocol.primitives import uuid_text

from .coordination import znodes
from .coordination.interface import Create, NodeExists, Session, Set


async def make_startup_paths(session: Session) -> None:
    """Make sure of the persistent nodes that everything else lies below."""
    for path in znodes.STARTUP_PATHS:
        await _make_path(session, path)


async def _make_path(session: Session, path: str) -> None:
    parts = path.strip("/").split("/")
    for count in range(1, len(parts) + 1):
        ancestor = "/" + "/".join(parts[:count])
        if await session.exists(ancestor) is None:
            try:
                await session.create(ancestor)
            except NodeExists:
                continue  # another broker was first


async def agree_on_cluster_id(
    session: Session, own_cluster_id: str | None, randbytes: Callable[[int], bytes]
) -> str:
    """The cluster's id; a new cluster takes that of the data directory, or a fresh one."""
    if await session.exists(znodes.CLUSTER_ID) is None:
        await _make_path(session, znodes.CLUSTER_ID.rpartition("/")[0])
        cluster_id = own_cluster_id or uuid_text(randbytes(16))
        with contextlib.suppress(NodeExists):  # another broker was first: its id counts
            await session.create(znodes.CLUSTER_ID, znodes.encode_cluster_id(cluster_id))
    data, _ = await session.get(znodes.CLUSTER_ID)
    return znodes.decode_cluster_id(data)


async def register(
    session: Session, broker_id: int, endpoints: Sequence[znodes.RegisteredEndpoint], wall_ms: int
) -> None:
    """Enter the broker below /brokers/ids, for as long as its session lives."""
    registration = znodes.BrokerRegistration(tuple(endpoints), wall_ms)
    path = znodes.broker_path(broker_id)
    # Kafka creates and then sets: readers see data version 1.
    await session.multi([Create(path, ephemeral=True), Set(path, registration.encode(), 0)])
