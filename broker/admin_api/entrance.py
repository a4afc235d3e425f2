"""The entrance: ports on which one test's clients reach the brokers, beside the listeners."""

import os
from collections.abc import Mapping
from typing import Any, Final

from odradek.host_port import PORT_MAX

from ..entrances import open_entrance
from .controls import Controls
from .fields import Field, Json, map_of, whole
from .problems import Problem
from .schemas import INTEGER, mapping, members

BROKERS_MAX: Final = 1000
ENTRANCE = members(ports=mapping(INTEGER))
PORTS = Field(
    "ports", map_of(whole(1, PORT_MAX), at_most=BROKERS_MAX), "A free port for each running broker."
)
OPEN = (PORTS,)


async def open_another(
    controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]
) -> Json:
    """Accept clients on other ports of 127.0.0.1, too, and no longer on those of the last call.

    Clients that come there are told only these ports. So those that a test leaves running can't
    come back when the next test has opened its entrance.
    """
    brokers, given = controls.brokers, fields["ports"]
    ports = {number: given[str(number)] for number in brokers if str(number) in given}
    if len(ports) < len(brokers) or len(ports) < len(given):
        wanted = ", ".join(map(str, brokers))
        raise Problem(400, f"ports must have one port for each running broker: {wanted}")
    async with controls.changing_brokers:
        try:
            await open_entrance(brokers, ports)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise Problem(409, f"no entrance: {reason}") from error
    return {"ports": {str(number): port for number, port in ports.items()}}
