"""The racks of brokers under test."""

from .door import AdminClients
from .errors import hides

__tracebackhide__ = hides


class Racks:
    """Where the brokers of a `Broker` stand."""

    _admins: AdminClients
    _settings: dict[str, str]

    def set_rack(self, broker_id: int, rack: str | None) -> None:
        """Put a broker into another rack, or into none; return once the others know.

        It stays there until `reset`, the end of the test, or until all brokers are started again;
        with a process for each broker, until its own is.  Raises: BrokerFailed.
        """
        self._admins.post_to_broker(broker_id, "set_rack", rack=rack)

    def _put_back_racks(self) -> None:
        """Put all brokers into the racks of their settings."""
        given = self._settings.get("broker.rack") or None
        told = [each for admin in self._admins for each in admin.get("brokers")["brokers"]]
        for each in told:
            if each["rack"] != given:
                self.set_rack(each["id"], given)
