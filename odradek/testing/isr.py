"""Controller, leaders and in-sync replicas, according to the brokers of a cluster."""

import time
from collections.abc import Mapping
from typing import Final

from odradek.protocol.messages.k03_metadata import MetadataResponse

from .access import ClientAccess
from .admin import read_metadata
from .errors import BrokerFailed, hides
from .ready import Address

__tracebackhide__ = hides
POLL_S: Final = 0.02
ASK_TIMEOUT_S: Final = 5.0
NEWS_TIMEOUT_S: Final = 0.5
"""How long the news of a partition may take to reach a broker."""
NAMED_MAX: Final = 10


def controller(
    addresses: Mapping[int, Address], access: ClientAccess, *, timeout_s: float
) -> Address:
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
    addresses: Mapping[int, Address], access: ClientAccess, topic: str, partition: int
) -> int:
    """The leader of a partition, -1 if there is none.

    A broker may hear of a new partition a little later than the client that has made it.
    Raises: BrokerFailed if the partition does not exist after that time.
    """
    deadline_s = time.monotonic() + NEWS_TIMEOUT_S
    while True:
        told = _ask_any(addresses, access)
        leaders = {} if told is None else _leaders(told, topic)
        if partition in leaders:
            return leaders[partition]
        if time.monotonic() > deadline_s:
            if told is None:
                raise BrokerFailed("no broker answers")
            raise BrokerFailed(_no_such(told, topic, partition, leaders))
        time.sleep(POLL_S)


def _leaders(told: MetadataResponse, topic: str) -> dict[int, int]:
    return {
        found.partition_index: found.leader_id
        for entry in told.topics
        if entry.name == topic
        for found in entry.partitions
    }


def _no_such(told: MetadataResponse, topic: str, partition: int, leaders: Mapping[int, int]) -> str:
    if leaders:
        return f"topic {topic} has no partition {partition}, but {len(leaders)} from 0 on"
    names = sorted(entry.name or "" for entry in told.topics)
    listed = ", ".join(names[:NAMED_MAX]) + (", …" if names[NAMED_MAX:] else "")
    return f"there is no topic {topic}; there is {listed or 'none at all'}"


def wait_until_in_sync(
    addresses: Mapping[int, Address], access: ClientAccess, broker_id: int, *, timeout_s: float
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


def _missing(addresses: Mapping[int, Address], access: ClientAccess, broker_id: int) -> list[str]:
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


def _ask_any(addresses: Mapping[int, Address], access: ClientAccess) -> MetadataResponse | None:
    for address in addresses.values():
        told = _ask(address, access)
        if told is not None:
            return told
    return None


def _ask(address: Address, access: ClientAccess) -> MetadataResponse | None:
    try:
        return read_metadata(address, access, timeout_s=ASK_TIMEOUT_S)
    except OSError:
        return None
