"""Controller, leaders and in-sync replicas, according to the brokers of a cluster."""

import time
from collections.abc import Mapping
from typing import Final

from odradek.client_configs import Access
from odradek.protocol.messages.k03_metadata import MetadataResponse

from .admin import read_metadata
from .errors import BrokerFailed
from .ready import Address

POLL_S: Final = 0.02
ASK_TIMEOUT_S: Final = 5.0
NAMED_MAX: Final = 10


def controller(addresses: Mapping[int, Address], access: Access, *, timeout_s: float) -> Address:
    """The address of the controller, once there is one.  Raises: BrokerFailed."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        told = _ask_any(addresses, access)
        if told is not None and told.controller_id in addresses:
            return addresses[told.controller_id]
        if time.monotonic() > deadline_s:
            raise BrokerFailed("the brokers name no controller that runs")
        time.sleep(POLL_S)


def leader(
    addresses: Mapping[int, Address],
    access: Access,
    topic: str,
    partition: int,
    *,
    timeout_s: float,
) -> int:
    """The leader of a partition, -1 if there is none.

    Raises: BrokerFailed if the partition does not exist in time.
    """
    deadline_s = time.monotonic() + timeout_s
    told = None
    while time.monotonic() < deadline_s:
        told = _ask_any(addresses, access)
        for entry in told.topics if told is not None else ():
            for found in entry.partitions:
                if (entry.name, found.partition_index) == (topic, partition):
                    return found.leader_id
        time.sleep(POLL_S)
    if told is None:
        raise BrokerFailed("no broker answers")
    raise BrokerFailed(f"there is no partition {topic}-{partition}")


def wait_until_in_sync(
    addresses: Mapping[int, Address], access: Access, broker_id: int, *, timeout_s: float
) -> None:
    """Return once all brokers report a broker in sync wherever it has a replica.

    Raises: BrokerFailed, naming the partitions where it is not.
    """
    deadline_s = time.monotonic() + timeout_s
    while missing := _missing(addresses, access, broker_id):
        if time.monotonic() > deadline_s:
            named = ", ".join(missing[:NAMED_MAX]) + (", …" if missing[NAMED_MAX:] else "")
            raise BrokerFailed(f"broker {broker_id} is not in sync after {timeout_s:g} s: {named}")
        time.sleep(POLL_S)


def _missing(addresses: Mapping[int, Address], access: Access, broker_id: int) -> list[str]:
    """The partitions whose ISR lacks the broker according to any broker."""
    missing: dict[str, None] = {}
    for number, address in addresses.items():
        told = _ask(address, access)
        if told is None or not any(broker.node_id == broker_id for broker in told.brokers):
            missing[f"broker {number} does not know it"] = None
            continue
        for entry in told.topics:
            for found in entry.partitions:
                if broker_id in found.replica_nodes and broker_id not in found.isr_nodes:
                    missing[f"{entry.name}-{found.partition_index}"] = None
    return list(missing)


def _ask_any(addresses: Mapping[int, Address], access: Access) -> MetadataResponse | None:
    for address in addresses.values():
        told = _ask(address, access)
        if told is not None:
            return told
    return None


def _ask(address: Address, access: Access) -> MetadataResponse | None:
    try:
        return read_metadata(address, access, timeout_s=ASK_TIMEOUT_S)
    except OSError:
        return None
