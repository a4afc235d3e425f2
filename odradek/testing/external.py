"""`ExternalBroker`: brokers that already run, as a test's `Broker`."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from odradek.client_configs import OPEN
from odradek.protocol.errors import ErrorCode, error_name
from odradek.protocol.messages.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

from .access import ClientAccess
from .broker import Broker
from .cluster_client import ClusterClient, addresses_of, until_it_passes
from .door import AdminClient, AdminClients, AdminError, NotFound
from .errors import BrokerFailed, hides
from .foreign import ForeignAdmins
from .foreign_groups import listed_groups
from .journal import Journal
from .ready import Address, Ready
from .snapshots import Snapshot
from .topics import Topic, Topics

__tracebackhide__ = hides
NOT_OURS: Final = "the fixture has not started these brokers, so it can't %s"
_EMPTY: Final = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP)


class CreatedTopics(Topics):
    """Topics; remembers which ones it has created."""

    def __init__(self, admin: Callable[[], AdminClient], created: set[str]) -> None:
        super().__init__(admin)
        self._created = created

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str | bool | float] | None = None,
    ) -> Topic:
        """Create a topic; return once all brokers know its leaders.  Raises: AdminError."""
        made = super().create(
            name, partitions=partitions, replication_factor=replication_factor, configs=configs
        )
        self._created.add(name)
        return made


class ExternalBroker(Broker):
    """Brokers that already run: Odradek's, or Apache Kafka's.

    With the URL of Odradek's admin API it can do what that can; without one, what Kafka's requests
    can. The rest is refused in a sentence.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        admin_url: str = "",
        admin_token: str = "",
        prefix: str = "",
        access: ClientAccess = OPEN,
        admins: AdminClients | None = None,
    ) -> None:
        """`admins`: instead of the clients of `admin_url`.  Raises: ValueError."""
        super().__init__()
        self._given_access = access
        self._cluster = ClusterClient(addresses_of(bootstrap_servers), self._access)
        self._url = admin_url.rstrip("/")
        if admins is None and self._url:
            admins = AdminClients(lambda: [self._url], admin_token)
            AdminClient(self._url).close()  # its form
        self._admins = ForeignAdmins(self._cluster) if admins is None else admins
        self._created: set[str] = set()
        self._requests_before = 0
        self.prefix = prefix

    @property
    def has_admin(self) -> bool:
        """Whether it has an admin API."""
        return not isinstance(self._admins, ForeignAdmins)

    def start(self, broker_id: int | None = None, *, in_sync: bool = True) -> None:
        """Ask where the brokers are; given a `broker_id`, start that one.  Raises: BrokerFailed."""
        if broker_id is not None:
            self._start_one(broker_id, in_sync=in_sync)
        else:
            self._ready = Ready(addresses=self._cluster.addresses(), startup_ms=0)

    def stop(self, broker_id: int | None = None) -> None:
        """Stop one broker.  Raises: RuntimeError for all, BrokerFailed."""
        if broker_id is None:
            raise RuntimeError(NOT_OURS % "stop them all: stop one by its id")
        super().stop(broker_id)

    def kill(self, broker_id: int | None = None, *, expire: bool = False) -> None:
        """Kill one broker.  Raises: RuntimeError for all, BrokerFailed."""
        if broker_id is None:
            raise RuntimeError(NOT_OURS % "kill them all: kill one by its id")
        super().kill(broker_id, expire=expire)

    def restart(self) -> None:
        """Refuse.  Raises: RuntimeError always."""
        raise RuntimeError(NOT_OURS % "restart them")

    def fork(self) -> Broker:
        """Refuse.  Raises: RuntimeError always."""
        raise RuntimeError(NOT_OURS % "start others on a copy of their files")

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot, if these brokers can do so while they run.

        Raises: BrokerFailed.
        """
        try:
            self.admin.post("snapshots", snapshot.id, "restore")
        except AdminError as error:
            if not self.has_admin:
                raise
            raise BrokerFailed(f"{NOT_OURS % 'restore this snapshot'}: {error}") from None

    def reset(self) -> None:
        """Delete what the tests have made.  Raises: BrokerFailed."""
        self.clean()

    def close(self) -> None:
        """Leave the brokers running."""
        self._admins.close()

    def clean(self) -> None:
        """Delete the topics that this fixture has created and, with a prefix, everything of it.

        A group that still has members stays.  Raises: BrokerFailed.
        """
        doomed = set(self._created)
        if self.prefix:
            doomed.update(name for name in self.topics if name.startswith(self.prefix))
        for name in sorted(doomed):
            with suppress(NotFound):
                self.topics.delete(name)
        self._created.clear()
        if self.prefix:
            self._delete_groups()

    def _delete_groups(self) -> None:
        doomed: dict[int, list[str]] = {}
        for group in until_it_passes(lambda: [*listed_groups(self._cluster)]):
            if group["group_id"].startswith(self.prefix):
                doomed.setdefault(group["coordinator"], []).append(group["group_id"])
        for node_id, address in self._cluster.addresses().items():
            if node_id not in doomed:
                continue
            request = DeleteGroupsRequest(groups_names=doomed[node_id])
            answer = self._cluster.ask(address, request, DeleteGroupsResponse, at_most=2)
            for each in answer.results:
                if each.error_code not in _EMPTY:
                    name = error_name(each.error_code)
                    raise BrokerFailed(f"group {each.group_id} can't be deleted: {name}")

    def begin(self) -> None:
        """The journal begins with the next request.  Raises: BrokerFailed."""
        if self.has_admin:
            last = Journal(self._admins).requests(limit=1)
            self._requests_before = last[-1].number if last else 0

    @property
    def journal(self) -> Journal:
        """The requests of clients since the test began."""
        return Journal(self._admins, after=self._requests_before)

    @property
    def running(self) -> bool:
        """True: nobody has said otherwise."""
        return True

    @property
    def topics(self) -> CreatedTopics:
        """Their topics."""
        return CreatedTopics(lambda: self._admins.first, self._created)

    @property
    def admin_url(self) -> str:
        """Where the admin API is; empty if there is none."""
        return self._url

    @property
    def data_dir(self) -> Path:
        """Refuse.  Raises: RuntimeError always."""
        raise RuntimeError(NOT_OURS % "know where their files are")

    @property
    def _addresses(self) -> dict[int, Address]:
        return self._told.addresses

    def _access_of(self, user: str | None) -> ClientAccess:
        if user is not None:
            raise ValueError(NOT_OURS % f"tell how {user!r} logs in")
        return self._given_access

    def _command(self, verb: str, broker_id: int, **fields: bool) -> None:
        self._check_broker(broker_id)
        self.admin.post("brokers", broker_id, verb, **fields)
