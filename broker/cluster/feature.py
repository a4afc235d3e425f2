"""The node /feature: what the brokers of the cluster have agreed on, which must be nothing.

Kafka's brokers in ZooKeeper mode support no feature: with any in the node, each of them exits.
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
    """Every broker's look at the node: its version is shown in ApiVersions."""

    def __init__(self, session: Session, on_event: Watch) -> None:
        """After `on_event` it is to be read again."""
        self._session = session
        self._on_event = on_event
        self.epoch = UNKNOWN_EPOCH

    async def read(self) -> None:
        """Read the node and watch it."""
        stat = await until_connected(lambda: self._session.exists(znodes.FEATURE, self._on_event))
        self.epoch = UNKNOWN_EPOCH if stat is None else stat.version


async def ensure_feature(session: Session, writer: FencedWriter) -> None:
    """Have the node say that features are enabled, and that there are none; as controller.

    Features that somebody has put there stay: removing them is up to whoever added them.
    """
    while (op := await _correction(session)) is not None:
        try:
            await writer.write([op])
        except OpRefused as refused:  # somebody else has made or removed the node
            if not isinstance(refused.error, NodeExists | NoNode):
                raise


async def _correction(session: Session) -> Op | None:
    """What is to be written; None: nothing."""
    try:
        data, _ = await until_connected(lambda: session.get(znodes.FEATURE))
        feature = znodes.Feature.decode(data)
    except NoNode:
        return Create(znodes.FEATURE, znodes.EMPTY_FEATURE)
    except MalformedZnode as error:
        logger.error("features unknown path=%s error=%s", znodes.FEATURE, error)
        return None
    if feature.enabled and feature.version_levels_max:
        names = sorted(feature.version_levels_max)
        logger.error("unknown features path=%s features=%s", znodes.FEATURE, names)
        return None
    if feature.enabled and json.loads(data).get("version") == VERSION:
        return None
    return Set(znodes.FEATURE, znodes.EMPTY_FEATURE)
