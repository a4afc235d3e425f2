"""The network of the brokers under test: `broker.network.isolate(2)`, `broker.network.heal()`."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from odradek.durations import Duration, seconds_of

from .door import AdminClient, running
from .ready import check_broker


class Network:
    """Cuts links between brokers, or slows them down, until `heal`.

    A cut link loses packets: connections stay open and nothing arrives, so requests wait until
    their time is over. What is called later adds to what was called before.
    """

    def __init__(
        self, admins: Callable[[], Iterable[AdminClient]], broker_ids: Callable[[], list[int]]
    ) -> None:
        """`admins`: one of each process that runs."""
        self._admins = admins
        self._broker_ids = broker_ids
        self._calls: list[tuple[str, dict[str, Any]]] = []
        """Since the network was healed."""
        self._known: dict[AdminClient, Any] = {}
        """The network as each process has it since the last call."""

    def __repr__(self) -> str:
        return "<Network>"

    def split(self, *groups: Collection[int], clients: bool = False, store: bool = False) -> None:
        """Cut the links between groups of brokers; those in no group are with the last one.

        `clients`, `store`: they, too, are with the last group, and other brokers do not reach them.
        Raises: ValueError, AdminError if that can't be done here.
        """
        for group in groups:
            for broker_id in group:
                self._check_broker(broker_id)
        self._post(
            "split", groups=[sorted(group) for group in groups], clients=clients, store=store
        )

    def isolate(self, broker_id: int, *, clients: bool = False, store: bool = False) -> None:
        """Cut the links between a broker and all others, clients or the store as with `split`.

        Raises: ValueError, AdminError.
        """
        self._check_broker(broker_id)
        others = [other for other in self._broker_ids() if other != broker_id]
        if others:
            self._post("split", groups=[[broker_id], others], clients=clients, store=store)
        else:
            self._post("isolate", broker=broker_id, clients=clients, store=store)

    def slow(
        self,
        broker_id: int,
        *,
        delay: Duration = 0,
        bytes_per_s: int | None = None,
        clients: bool = False,
        store: bool = False,
    ) -> None:
        """Let each request and its answer take longer between a broker and all others.

        `bytes_per_s` is the rate of each connection in each direction. `clients`, `store`: between
        it and its clients, or the store, too. Replaces what was said of this broker before.
        Raises: ValueError, AdminError if that can't be done here.
        """
        self._check_broker(broker_id)
        self._post(
            "slow",
            broker=broker_id,
            delay=seconds_of(delay),
            bytes_per_s=bytes_per_s,
            clients=clients,
            store=store,
        )

    def heal(self) -> None:
        """Mend all links, and let none be slow."""
        self._known = {admin: admin.post("network", "heal") for admin in self._admins()}
        self._calls.clear()

    def forget(self) -> None:
        """Take note that the brokers have a good network: they were started, or restored."""
        self._calls.clear()

    @property
    def cut_off(self) -> set[int]:
        """The brokers that are in another than the last group of a split."""
        splits = (fields["groups"] for verb, fields in self._calls if verb == "split")
        return {broker_id for groups in splits for group in groups[:-1] for broker_id in group}

    def catch_up(self) -> None:
        """Tell processes that have not heard of the last call: they did not run, or were paused."""
        for admin in self._admins():
            if admin.get("network") != self._known.get(admin):
                self._known[admin] = admin.post("network", "heal")
                for verb, fields in self._calls:
                    self._known[admin] = admin.post("network", verb, **fields)

    @property
    def state(self) -> dict[str, Any]:
        """What is cut and slow, as the admin API shows it."""
        state: dict[str, Any] = running(self._admins())[0].get("network")
        return state

    def _check_broker(self, broker_id: int) -> None:
        check_broker(broker_id, self._broker_ids())  # a process knows only its own ones

    def _post(self, verb: str, **fields: Any) -> None:
        admins = running(self._admins())
        self._known = {admin: admin.post("network", verb, **fields) for admin in admins}
        self._calls.append((verb, fields))
