"""Brokers for tests.

    with Broker() as broker:
        producer = KafkaProducer(**broker.client_config("kafka-python"))

The pytest fixtures `odradek`, `odradek_cluster` and `odradek_server` are of this class.
"""

from odradek.client_configs import ClientName

from .broker import Broker
from .comparing import Expected, assert_records
from .door import AdminError
from .errors import BrokerFailed
from .faults import Fault
from .journal import Request
from .records import Record
from .snapshots import Snapshot
from .waits import WaitTimeout

__all__ = [
    "AdminError",
    "Broker",
    "BrokerFailed",
    "ClientName",
    "Expected",
    "Fault",
    "Record",
    "Request",
    "Snapshot",
    "WaitTimeout",
    "assert_records",
]
