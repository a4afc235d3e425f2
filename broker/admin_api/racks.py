"""Racks: in which one a broker is, as others and clients see it."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from ..coordination.interface import CoordinationError
from ..network.conditions import STORE
from ..server import Broker
from .asking import RETRY_S, TIMEOUT_S, wait_for_all
from .brokers import broker_id_in, state_of
from .controls import Controls
from .fields import TEXT, Field, Json, nullable
from .problems import Problem

RACK_CHARACTERS_MAX: Final = 1000
RACK: Final = Field("rack", nullable(TEXT), "Its rack; null: none.")
SET_RACK: Final = (RACK,)


async def set_rack(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Put a broker into a rack; return once all brokers of this process know."""
    broker_id, rack = broker_id_in(path, controls), fields["rack"] or None
    if rack is not None and len(rack) > RACK_CHARACTERS_MAX:
        raise Problem(400, f"rack is longer than {RACK_CHARACTERS_MAX} characters")
    async with controls.changing_brokers:
        await _set(controls, broker_id, rack)
    return state_of(controls, broker_id)


async def put_back(controls: Controls) -> None:
    """Put all brokers into the racks of their settings.  Raises: Problem."""
    for broker_id, rack in list(controls.racks_before.items()):
        await _set(controls, broker_id, rack)
    controls.racks_before.clear()


async def _set(controls: Controls, broker_id: int, rack: str | None) -> None:
    broker = controls.brokers.get(broker_id)
    if broker is None:
        raise Problem(409, f"broker {broker_id} is not running")
    if broker.is_paused:
        raise Problem(409, f"broker {broker_id} is paused")
    if controls.is_cut(broker_id, STORE):
        raise Problem(409, f"broker {broker_id} is cut off from the store: heal the network first")
    controls.racks_before.setdefault(broker_id, broker.config.broker_rack)
    await _register(broker, rack)
    if controls.cluster is not None:
        controls.cluster.note_rack(broker_id, rack)
    await wait_for_all(
        controls,
        lambda node: (
            broker_id in node.metadata.brokers
            and (node.metadata.brokers[broker_id].rack or None) == rack
        ),
        f"the new rack of broker {broker_id}",
    )


async def _register(broker: Broker, rack: str | None) -> None:
    """Write it into the store, once the broker has a session there.  Raises: Problem."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    return await broker.move_to_rack(rack)
                except CoordinationError:
                    await asyncio.sleep(RETRY_S)
    except TimeoutError:
        raise Problem(
            504, f"broker {broker.broker_id} could not register within {TIMEOUT_S:g} s"
        ) from None
