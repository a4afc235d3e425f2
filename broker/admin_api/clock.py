"""The clock: moving it on, and letting it stand still."""

import logging
from collections.abc import Mapping
from typing import Any

from ..movable_clock import RoundsLast
from . import schemas
from .controls import Controls
from .fields import DURATION, Field, Json
from .problems import Problem

logger = logging.getLogger(__name__)

CLOCK = schemas.members(frozen=schemas.BOOLEAN, ahead_ms=schemas.INTEGER, wall_ms=schemas.INTEGER)
BY = Field("by", DURATION, "How far, as a duration.")
ADVANCE = (BY,)


def show(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Show the brokers' time, and how far it is ahead of the machine's."""
    clock = controls.clock
    return {"frozen": clock.is_frozen, "ahead_ms": clock.ahead_ms, "wall_ms": clock.wall_ms()}


async def advance(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Move the clock on; return once everything that became due has been called."""
    by_ms = round(fields["by"] * 1000)
    try:
        await controls.clock.advance(by_ms)
    except ValueError as error:
        raise Problem(400, str(error)) from error
    except RoundsLast as error:
        raise Problem(504, str(error)) from error
    logger.info("clock advanced by_ms=%d ahead_ms=%d", by_ms, controls.clock.ahead_ms)
    return show(controls, path, fields)


def freeze(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Let time stand still until it is resumed; it can still be advanced."""
    controls.clock.freeze()
    return show(controls, path, fields)


def resume(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Let time pass again, from where it stood."""
    controls.clock.resume()
    return show(controls, path, fields)
