"""The settings that resources have in the store, each resource in a znode below /config."""

import logging

from . import znodes
from .interface import NoNode, Session
from .json_fields import MalformedZnode

logger = logging.getLogger(__name__)


async def read_config(session: Session, path: str) -> dict[str, str]:
    """A resource's own settings; an unreadable znode is logged and counts as empty."""
    try:
        data, _ = await session.get(path)
        return znodes.decode_config(data)
    except NoNode:
        return {}
    except MalformedZnode as error:
        logger.error("config ignored path=%s error=%s", path, error)
        return {}
