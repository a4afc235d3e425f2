"""The znode /feature, which holds the cluster's finalized features; there must be none.

Kafka's brokers in ZooKeeper mode support no features: if the znode lists any, each of them exits.
"""

import json
import logging
from typing import Final

from ..coordination import znodes
from ..coordination.interface import Create, NodeExists, NoNode, Op, Session, Set, Watch
from ..coordination.json_fields import MalformedZnode
from .store_calls import until_connected
from .writing import FencedWriter, OpRefused

logger = logging.getLogger(__name__)

UNKNOWN_EPOCH: Final = -1
VERSION: Final = 2


class FeatureWatch:
    """Watches the znode on every broker; ApiVersions responses carry its version."""

    def __init__(self, session: Session, on_event: Watch) -> None:
        """`on_event` is the watch; call `read` after it fires."""
        self._session = session
        self._on_event = on_event
        self.epoch = UNKNOWN_EPOCH

    async def read(self) -> None:
        """Read the znode's version and set the watch."""
        stat = await until_connected(lambda: self._session.exists(znodes.FEATURE, self._on_event))
        self.epoch = UNKNOWN_EPOCH if stat is None else stat.version


async def ensure_feature(session: Session, writer: FencedWriter) -> None:
    """As controller, make the znode say that features are enabled and that there are none.

    Enabled features that are listed there stay: removing them is up to those who added them.
    """
    while (op := await _correction(session)) is not None:
        try:
            await writer.write([op])
        except OpRefused as refused:  # another client created or deleted the znode
            if not isinstance(refused.error, NodeExists | NoNode):
                raise


async def _correction(session: Session) -> Op | None:
    """The operation that corrects the znode; None: nothing to write."""
    try:
        data, _ = await until_connected(lambda: session.get(znodes.FEATURE))
        feature = znodes.Feature.decode(data)
    except NoNode:
        return Create(znodes.FEATURE, znodes.EMPTY_FEATURE)
    except MalformedZnode as error:
        logger.error("feature node unreadable path=%s error=%s", znodes.FEATURE, error)
        return None
    if feature.enabled and feature.version_levels_max:
        names = sorted(feature.version_levels_max)
        logger.error("unknown features ignored path=%s features=%s", znodes.FEATURE, names)
        return None
    if feature.enabled and json.loads(data).get("version") == VERSION:
        return None
    return Set(znodes.FEATURE, znodes.EMPTY_FEATURE)
