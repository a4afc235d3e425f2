"""The network: links between brokers are cut and slow, until it is healed."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from odradek.protocol.primitives import INT32_MAX

from ..network.conditions import Conditions, Slowness, Split, check_groups
from . import schemas
from .controls import Controls
from .fields import DELAY, Field, Json, list_of, nullable, whole
from .problems import Problem

logger = logging.getLogger(__name__)

GROUPS_MAX: Final = 100
BROKERS_MAX: Final = 1000
SPLITS_MAX: Final = 100
BYTES_PER_S_MAX: Final = 1 << 40

NETWORK: Final = schemas.members(
    splits=schemas.array(schemas.members(groups=schemas.array(schemas.array(schemas.INTEGER)))),
    slow=schemas.array(
        schemas.members(
            broker=schemas.INTEGER,
            delay_s=schemas.NUMBER,
            bytes_per_s=schemas.either(schemas.INTEGER, schemas.NULL),
        )
    ),
)
BROKER_ID: Final = whole(0, INT32_MAX)
BROKER: Final = Field("broker", BROKER_ID, "The broker.")
SPLIT: Final = (
    Field(
        "groups",
        list_of(list_of(BROKER_ID, at_most=BROKERS_MAX), at_most=GROUPS_MAX),
        "Brokers by group; those in no group are with the last one.",
    ),
)
ISOLATE: Final = (BROKER,)
SLOW: Final = (
    BROKER,
    Field("delay", DELAY, "By how much longer each request and its answer take.", 0.0),
    Field(
        "bytes_per_s",
        nullable(whole(1, BYTES_PER_S_MAX)),
        "The rate of each connection in each direction; default: any.",
        None,
    ),
)


def show(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Show which links are cut or slow."""
    conditions = controls.network.conditions
    return {
        "splits": [
            {"groups": [sorted(group) for group in each.groups]} for each in conditions.splits
        ],
        "slow": [
            {
                "broker": each.broker_id,
                "delay_s": each.delay_s,
                "bytes_per_s": each.bytes_per_s,
            }
            for each in conditions.slow
        ],
    }


def split(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Cut the links between groups of brokers, in addition to what is cut already."""
    groups = tuple(map(frozenset, fields["groups"]))
    try:
        check_groups(groups)
    except ValueError as error:
        raise Problem(400, f"groups: {error}") from None
    for broker_id in frozenset[int]().union(*groups):
        _check_broker(controls, broker_id)
    return _split(controls, Split(groups))


def isolate(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Cut the links between a broker and all others."""
    _check_broker(controls, fields["broker"])
    others = frozenset(controls.broker_ids) - {fields["broker"]}
    return _split(controls, Split((frozenset({fields["broker"]}), others)))


def slow(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Slow down the links between a broker and all others; replaces what was said of it before."""
    _check_broker(controls, fields["broker"])
    if not fields["delay"] and fields["bytes_per_s"] is None:
        raise Problem(400, "nothing is slow: give delay or bytes_per_s, or heal the network")
    slowness = Slowness(
        broker_id=fields["broker"], delay_s=fields["delay"], bytes_per_s=fields["bytes_per_s"]
    )
    return _change(controls, controls.network.conditions.with_slowness(slowness))


def heal(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Mend all links, and let none be slow."""
    return _change(controls, Conditions())


def _split(controls: Controls, split: Split) -> Json:
    conditions = controls.network.conditions
    if split in conditions.splits:
        return show(controls, {}, {})
    if len(conditions.splits) >= SPLITS_MAX:
        raise Problem(409, f"the network is split {SPLITS_MAX} times: heal it first")
    return _change(controls, conditions.with_split(split))


def _change(controls: Controls, conditions: Conditions) -> Json:
    if conditions == controls.network.conditions:
        return show(controls, {}, {})
    controls.network.change(conditions)
    shown = show(controls, {}, {})
    logger.info("network changed splits=%s slow=%s", shown["splits"], shown["slow"])
    return shown


def _check_broker(controls: Controls, broker_id: int) -> None:
    """Check that there is this broker; those in other processes are not known here.

    Raises: Problem.
    """
    if controls.uses_zookeeper or broker_id in controls.broker_ids:
        return
    known = ", ".join(map(str, controls.broker_ids))
    raise Problem(400, f"there is no broker {broker_id} in this process, which has {known}")
