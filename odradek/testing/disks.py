"""The disks of brokers under test: full, failed, and healed again."""

from collections.abc import Callable

from .door import AdminClients
from .errors import hides

__tracebackhide__ = hides


class Disks:
    """What a `Broker` can do to the disks of its brokers."""

    _admins: AdminClients
    _down: set[int]
    _disks_are_full = False
    """Whether one has been full since all were healed."""
    _end_with_disk: Callable[[int], None]

    def disk_full(self, broker_id: int) -> None:
        """Let a broker write nothing more to its log directory, as on a full disk.

        Until `heal_disk`, what would need room gets KAFKA_STORAGE_ERROR; all else is served.
        Raises: BrokerFailed.
        """
        self._admins.post_to_broker(broker_id, "disk_full")
        self._disks_are_full = True

    def fail_disk(self, broker_id: int, *, expire: bool = False) -> None:
        """Have a broker's log directory fail: the broker ends at once, as Kafka does without any.

        Its session with the store ends at its timeout, or at once with `expire`. A broker that
        shares its process with others can't `start` before `heal_disk`; one with a process of its
        own starts on a disk that works.  Raises: BrokerFailed.
        """
        told = self._admins.post_to_broker(broker_id, "fail_disk", expire=expire)
        self._down.add(broker_id)
        if told["state"] != "down":
            self._end_with_disk(broker_id)

    def heal_disk(self, broker_id: int) -> None:
        """End what `disk_full` or `fail_disk` began.  Raises: BrokerFailed."""
        self._admins.post_to_broker(broker_id, "heal_disk")

    def _heal_disks(self) -> None:
        for admin in self._admins:
            for each in admin.get("brokers")["brokers"]:
                if each["disk"] != "ok":
                    admin.post("brokers", each["id"], "heal_disk")
        self._disks_are_full = False
