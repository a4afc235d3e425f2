"""The secret of a cluster from which the challenges of absent SCRAM users follow.

All brokers of a cluster must give the same challenge, also after a restart: otherwise a client that
asks two of them, or asks twice, learns who does not exist. So it is in the store, where only
brokers may read it (`zookeeper.set.acl`), and is made by the first broker that needs it.
"""

import contextlib
from collections.abc import Callable
from typing import Final

from ..coordination import znodes
from ..coordination.interface import NodeExists, NoNode, Session
from .membership import make_path

SIZE_BYTES: Final = 32


async def scram_secret(session: Session, random_bytes: Callable[[int], bytes]) -> bytes:
    """The cluster's secret; the first broker makes it.  Raises: MalformedZnode."""
    try:
        data, _ = await session.get(znodes.SCRAM_SECRET)
    except NoNode:
        await make_path(session, znodes.SCRAM_SECRET.rpartition("/")[0])
        with contextlib.suppress(NodeExists):  # another broker was first: its secret counts
            made = znodes.encode_scram_secret(random_bytes(SIZE_BYTES))
            await session.create(znodes.SCRAM_SECRET, made)
        data, _ = await session.get(znodes.SCRAM_SECRET)
    return znodes.decode_scram_secret(data)
