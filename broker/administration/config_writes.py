"""Writing below /config: a node of a resource, and with it the notification for all brokers.

As Kafka does, nothing is written while there is no controller, or one in KRaft mode: somebody could
be moving the cluster away from here.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused

from ..coordination import znodes
from ..coordination.interface import (
    BadVersion,
    Check,
    Create,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    RequestTooLarge,
    Session,
)
from ..coordination.json_fields import MalformedZnode
from .store_failures import needs_store

ABSENT: Final = -1
NOTHING_TO_WRITE: Final = -1

Config = dict[str, str]
Plan = Callable[[Config, int], Awaitable[Sequence[Op] | None]]
"""From what a resource has set, and the version of its node or ABSENT, to what is to be written;
None: nothing is.  Raises: Refused."""


async def controller_check(session: Session) -> Check:
    """What holds as long as the controller stays the same.

    Raises: Refused (STALE_CONTROLLER_EPOCH, which is what Kafka calls it).
    """
    try:
        data, stat = await session.get(znodes.CONTROLLER)
        node = znodes.ControllerNode.decode(data)
    except NoNode:
        raise _refuse("there is no controller just now") from None
    except MalformedZnode as error:
        raise _refuse(str(error)) from None
    if node.kraft_controller_epoch > 0:
        raise _refuse("the controller is in KRaft mode")
    return Check(znodes.CONTROLLER, stat.version)


@needs_store
async def change_config(
    session: Session,
    entity_path: str,
    plan: Plan,
    *,
    conditions: Sequence[Op] = (),
    too_large: ErrorCode = ErrorCode.INVALID_CONFIG,
) -> int:
    """Write what `plan` says and a notification; again, if somebody else was faster.

    Returns the number of the notification, or NOTHING_TO_WRITE.
    Raises: Refused (UNKNOWN_TOPIC_OR_PARTITION if one of `conditions` does not hold, `too_large`,
    STALE_CONTROLLER_EPOCH; what `plan` raises).
    """
    path = f"/config/{entity_path}"
    data = znodes.encode_config_change(entity_path)
    notification = Create(znodes.CONFIG_CHANGE_PREFIX, data, sequential=True)
    while True:
        config, version = await _read(session, path)
        ops = await plan(config, version)
        if ops is None:
            return NOTHING_TO_WRITE
        controller = await controller_check(session)
        try:
            results = await session.multi([*conditions, controller, *ops, notification])
        except RequestTooLarge as error:
            raise Refused(too_large, str(error)) from None
        except MultiFailed as failed:
            if failed.index < len(conditions):
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None
            if not isinstance(failed.error, BadVersion | NoNode | NodeExists | NotEmpty):
                raise
            continue
        created = results[-1]
        assert isinstance(created, str)
        return znodes.sequence_number(created)


async def _read(session: Session, path: str) -> tuple[Config, int]:
    try:
        data, stat = await session.get(path)
    except NoNode:
        return {}, ABSENT
    try:
        return znodes.decode_config(data), stat.version
    except MalformedZnode:
        return {}, stat.version  # nobody could use it; it is replaced


def _refuse(message: str) -> Refused:
    return Refused(ErrorCode.STALE_CONTROLLER_EPOCH, message)
