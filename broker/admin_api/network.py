"""The network: links between brokers are cut and slow, until it is healed."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from odradek.protocol.primitives import INT32_MAX

from ..network.conditions import Conditions, Slowness, Split, check_groups
from . import schemas
from .controls import Controls
from .fields import BOOLEAN, DELAY, Field, Json, list_of, nullable, whole
from .problems import Problem

logger = logging.getLogger(__name__)

GROUPS_MAX: Final = 100
BROKERS_MAX: Final = 1000
SPLITS_MAX: Final = 100
BYTES_PER_S_MAX: Final = 1 << 40

NETWORK: Final = schemas.members(
    splits=schemas.array(
        schemas.members(
            groups=schemas.array(schemas.array(schemas.INTEGER)),
            clients=schemas.BOOLEAN,
            store=schemas.BOOLEAN,
        )
    ),
    slow=schemas.array(
        schemas.members(
            broker=schemas.INTEGER,
            delay_s=schemas.NUMBER,
            bytes_per_s=schemas.either(schemas.INTEGER, schemas.NULL),
            clients=schemas.BOOLEAN,
            store=schemas.BOOLEAN,
        )
    ),
)
BROKER_ID: Final = whole(0, INT32_MAX)
BROKER: Final = Field("broker", BROKER_ID, "The broker.")
CLIENTS: Final = Field(
    "clients", BOOLEAN, "Whether links to clients, too; they are with the last group.", False
)
STORE: Final = Field(
    "store", BOOLEAN, "Whether links to the store, too; it is with the last group.", False
)
SPLIT: Final = (
    Field(
        "groups",
        list_of(list_of(BROKER_ID, at_most=BROKERS_MAX), at_most=GROUPS_MAX),
        "Brokers by group; those in no group are with the last one.",
    ),
    CLIENTS,
    STORE,
)
ISOLATE: Final = (BROKER, CLIENTS, STORE)
SLOW: Final = (
    BROKER,
    Field("delay", DELAY, "By how much longer each request and its answer take.", 0.0),
    Field(
        "bytes_per_s",
        nullable(whole(1, BYTES_PER_S_MAX)),
        "The rate of each connection in each direction; default: any.",
        None,
    ),
    CLIENTS,
    STORE,
)


def show(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Show which links are cut or slow."""
    conditions = controls.network.conditions
    return {
        "splits": [
            {
                "groups": [sorted(group) for group in each.groups],
                "clients": each.clients,
                "store": each.store,
            }
            for each in conditions.splits
        ],
        "slow": [
            {
                "broker": each.broker_id,
                "delay_s": each.delay_s,
                "bytes_per_s": each.bytes_per_s,
                "clients": each.clients,
                "store": each.store,
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
    return _split(controls, Split(groups, fields["clients"], fields["store"]))


def isolate(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Cut the links between a broker and all others."""
    _check_broker(controls, fields["broker"])
    others = frozenset(controls.broker_ids) - {fields["broker"]}
    if not (others or controls.uses_zookeeper or fields["clients"]):
        raise Problem(
            400, f"broker {fields['broker']} is the only one: cut it off from clients=true"
        )
    groups = frozenset({fields["broker"]}), others
    return _split(controls, Split(groups, fields["clients"], fields["store"]))


def slow(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Slow down the links between a broker and all others; replaces what was said of it before."""
    _check_broker(controls, fields["broker"])
    if not fields["delay"] and fields["bytes_per_s"] is None:
        raise Problem(400, "nothing is slow: give delay or bytes_per_s, or heal the network")
    if fields["clients"]:
        _check_clients(controls, is_alone=False)
    if fields["store"]:
        _check_store(controls)
    slowness = Slowness(
        broker_id=fields["broker"],
        delay_s=fields["delay"],
        bytes_per_s=fields["bytes_per_s"],
        clients=fields["clients"],
        store=fields["store"],
    )
    return _change(controls, controls.network.conditions.with_slowness(slowness))


def heal(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Mend all links, and let none be slow."""
    return _change(controls, Conditions())


def _split(controls: Controls, split: Split) -> Json:
    if split.clients:
        _check_clients(controls, is_alone=all(len(group) == 1 for group in split.groups[:-1]))
    if split.store:
        _check_store(controls)
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


def _check_clients(controls: Controls, *, is_alone: bool) -> None:
    """Check that connections of clients can be cut or slow.

    `is_alone`: whether those of other brokers, too, are cut in the same way.  Raises: Problem.
    """
    for broker in controls.brokers.values():
        if not broker.can_be_cut_off_from_clients:
            raise Problem(409, "clients: only brokers on Linux can be cut off from their clients")
        if controls.uses_zookeeper and not broker.config.broker_only_listeners and not is_alone:
            raise Problem(
                409,
                "clients: brokers connect to the same listener as clients: give them one of their "
                "own (inter.broker.listener.name), or cut off single brokers",
            )


def _check_store(controls: Controls) -> None:
    """Check that the store is something that can be lost.  Raises: Problem."""
    if not controls.uses_zookeeper and len(controls.broker_ids) == 1:
        raise Problem(409, "store: the store of a single broker is in its own directory")


def _check_broker(controls: Controls, broker_id: int) -> None:
    """Check that there is this broker; those in other processes are not known here.

    Raises: Problem.
    """
    if controls.uses_zookeeper or broker_id in controls.broker_ids:
        return
    known = ", ".join(map(str, controls.broker_ids))
    raise Problem(400, f"there is no broker {broker_id} in this process, which has {known}")
