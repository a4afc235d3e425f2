"""Allocation of producer id blocks; no id is allocated twice in the life of the cluster."""

import logging
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused

from ..coordination import znodes
from ..coordination.interface import BadVersion, Create, NodeExists, NoNode, Op, Session, Set
from ..coordination.json_fields import INT64_MAX, MalformedZnode
from .store_calls import until_connected
from .writing import FencedWriter, OpRefused

logger = logging.getLogger(__name__)

BLOCK_SIZE: Final = 1000


async def take_block(session: Session, writer: FencedWriter, broker_id: int) -> range:
    """Allocate a block to a broker; a block whose answer is lost is never used.

    Raises: Refused (UNKNOWN_SERVER_ERROR) if none is left, or the znode is malformed.
    """
    while True:
        try:
            data, stat = await until_connected(lambda: session.get(znodes.PRODUCER_ID_BLOCK))
            first = znodes.ProducerIdBlock.decode(data).producer_id_last + 1 if data else 0
        except NoNode:
            await _make_node(writer)
            continue
        except MalformedZnode as error:
            logger.error(
                "producer id block unreadable path=%s error=%s", znodes.PRODUCER_ID_BLOCK, error
            )
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
        last = first + BLOCK_SIZE - 1
        if last > INT64_MAX or first < 0:
            logger.error("no producer ids left path=%s", znodes.PRODUCER_ID_BLOCK)
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "no producer ids are left")
        node = znodes.ProducerIdBlock(broker_id, first, last)
        if await _is_written(writer, Set(znodes.PRODUCER_ID_BLOCK, node.encode(), stat.version)):
            return range(first, last + 1)


async def _make_node(writer: FencedWriter) -> None:
    await _is_written(writer, Create(znodes.PRODUCER_ID_BLOCK))


async def _is_written(writer: FencedWriter, op: Op) -> bool:
    """Return whether it was written; another write may have been faster."""
    try:
        await writer.write([op])
    except OpRefused as refused:
        if not isinstance(refused.error, BadVersion | NodeExists | NoNode):
            raise
        return False
    return True
