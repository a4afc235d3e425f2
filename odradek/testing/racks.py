"""The racks of brokers under test."""

from contextlib import suppress

from .door import AdminClients, NotFound
from .errors import BrokerFailed, hides

__tracebackhide__ = hides


class Racks:
    """Where the brokers of a `Broker` stand."""

    _admins: AdminClients

    def set_rack(self, broker_id: int, rack: str | None) -> None:
        """Put a broker into another rack, or into none; return once the others know.

        It stays there until the end of the test, or until all brokers are started again; with a
        process for each broker, until its own is.  Raises: BrokerFailed.
        """
        for admin in self._admins:
            with suppress(NotFound):  # it is in another process
                admin.post("brokers", broker_id, "set_rack", rack=rack)
                return
        raise BrokerFailed(f"there is no broker {broker_id} that runs")
