"""Brokers for tests.

    with Broker() as broker:
        producer = KafkaProducer(**broker.client_config("kafka-python"))

The pytest fixtures `odradek` and `odradek_server` use this class.
"""

from odradek.client_configs import ClientName

from .broker import Broker
from .comparing import Expected, assert_records
from .errors import BrokerFailed
from .snapshots import Snapshot
from .waits import WaitTimeout

__all__ = [
    "Broker",
    "BrokerFailed",
    "ClientName",
    "Expected",
    "Snapshot",
    "WaitTimeout",
    "assert_records",
]
