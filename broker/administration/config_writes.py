"""Writing a config znode below /config, together with the notification for all brokers.

As in Kafka, nothing is written while there is no controller, or one in KRaft mode: the cluster may
be in migration to KRaft.
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
"""Maps a resource's config, and the version of its znode or ABSENT, to the operations to write;
None: write nothing.  Raises: Refused."""


async def controller_check(session: Session) -> Check:
    """A check that succeeds as long as the controller stays the same.

    Raises: Refused (STALE_CONTROLLER_EPOCH, as in Kafka).
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
    """Write what `plan` returns and a notification; plan again if another write was faster.

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
        return {}, stat.version  # unusable, so it is replaced


def _refuse(message: str) -> Refused:
    return Refused(ErrorCode.STALE_CONTROLLER_EPOCH, message)
