"""The racks of brokers under test."""

from .door import AdminClients
from .errors import hides

__tracebackhide__ = hides


class Racks:
    """Where the brokers of a `Broker` stand."""

    _admins: AdminClients

    def set_rack(self, broker_id: int, rack: str | None) -> None:
        """Put a broker into another rack, or into none; return once the others know.

        It stays there until the end of the test, or until all brokers are started again; with a
        process for each broker, until its own is.  Raises: BrokerFailed.
        """
        self._admins.post_to_broker(broker_id, "set_rack", rack=rack)
