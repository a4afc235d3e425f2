"""The servers of a test session that uses brokers which others have started.

Their state can't be put back, as they may have other users. So a test finds its topics new, and
what it has made is deleted: the topics that the fixture has created or, with a prefix, all topics
and groups whose names begin with it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from odradek.client_configs import OPEN

from .access import ClientAccess
from .door import AdminClient, AdminClients, AdminError
from .errors import BrokerFailed, hides
from .external import ExternalBroker
from .load import load_file
from .marker import Refused, Topics, Wanted
from .servers import Load, Server, Servers
from .share import SharedBroker

__tracebackhide__ = hides
_FOR_ALL: Final = (
    "brokers",
    "clock",
    "coordinators",
    "entrance",
    "faults",
    "network",
    "shuffle_leaders",
    "snapshots",
)
SHARED: Final = (
    "these brokers are those of all workers, and this would concern the others' tests, too: run "
    "such tests without %s"
)


def external_broker(
    servers: str,
    *,
    admin_url: str,
    admin_token: str,
    prefix: str,
    worker: str,
    access: ClientAccess = OPEN,
) -> ExternalBroker:
    """The brokers at these addresses, for one worker of pytest-xdist, or for a run without it.

    Raises: ValueError.
    """
    admins: AdminClients | None = None
    if worker:
        prefix = f"{prefix}{worker}."
        admins = SharedAdmins(admin_url, admin_token, "-n") if admin_url else None
    return ExternalBroker(
        servers,
        admin_url=admin_url,
        admin_token=admin_token,
        prefix=prefix,
        access=access,
        admins=admins,
    )


class ExternalServer(Server):
    """Brokers of others, with the topics and groups of one test at a time."""

    broker: ExternalBroker

    def __init__(self, broker: ExternalBroker, topics: Topics, loads: Sequence[Load]) -> None:
        self.broker = broker
        self._topics = topics
        self._loads = loads

    def clean(self, topics: Topics) -> None:
        """Delete what is left of other tests, and create these topics.  Raises: BrokerFailed."""
        self.broker.clean()
        for name, partitions in sorted({**dict(self._topics), **dict(topics)}.items()):
            try:
                self.broker.topics.create(self.broker.name(name), partitions=partitions)
            except AdminError as error:
                raise BrokerFailed(
                    f"{error}. A test finds its topics new: delete it, or set odradek_prefix"
                ) from None
        for load in self._loads:
            if callable(load):
                load(self.broker)
            else:
                self.broker._created.update(load_file(self.broker, Path(load)))
        self.broker.begin()

    def end(self) -> list[str]:
        """Delete what the test has made; why its rules for faults have never acted."""
        own = self.broker.has_admin and not isinstance(self.broker._admins, SharedAdmins)
        unused = self.broker.faults.end() if own else []
        self.broker.clean()
        return unused

    def leave(self) -> None:
        """Nothing more: all use the same listeners."""


class ExternalServers(Servers):
    """The one server that there is."""

    def __init__(
        self, usual: Wanted, topics: Topics, loads: Sequence[Load], broker: ExternalBroker
    ) -> None:
        """Raises: Refused."""
        super().__init__(usual, topics, loads)
        self._broker = broker
        self._server: ExternalServer | None = None
        if given := _given(usual):
            raise Refused(
                f"odradek_external: brokers that already run can't be given {given}; start them so"
            )

    def get(self, wanted: Wanted) -> Server:
        """The server, if a test wants it as it is.  Raises: BrokerFailed, Refused."""
        if given := _given(wanted):
            raise Refused(f"odradek_external: brokers that already run can't be given {given}")
        if self._server is None:
            self._broker.start()
            self._server = ExternalServer(self._broker, self.topics, self._loads)
        return self._server

    def close(self) -> None:
        """Leave it running."""
        self._broker.close()


class SharedServers(Servers):
    """The usual server is that of all workers; a test that wants another one has it for itself."""

    def __init__(
        self,
        usual: Wanted,
        topics: Topics,
        loads: Sequence[Load],
        *,
        directory: Path,
        prefix: str,
    ) -> None:
        """`directory`: the same for all workers.  Raises: Refused."""
        super().__init__(usual, topics, loads)
        if usual.tls or usual.sasl or usual.acls:
            raise Refused("odradek_share: brokers with TLS, logins or ACLs can't be shared")
        self._run = SharedBroker(directory)
        self._prefix = prefix
        self._shared: ExternalServer | None = None

    def get(self, wanted: Wanted) -> Server:
        """A server as wanted.  Raises: BrokerFailed, Refused."""
        if wanted != self.usual:
            return super().get(wanted)
        if self._shared is None:
            told = self._run.join(wanted)
            url = told["admin_url"]
            broker = ExternalBroker(
                told["bootstrap_servers"],
                admin_url=url,
                admins=SharedAdmins(url, "", "--odradek-share, or mark them with share=False"),
                prefix=self._prefix,
            )
            broker.start()
            self._shared = ExternalServer(broker, self.topics, self._loads)
        return self._shared

    def close(self) -> None:
        """Stop those of this worker; the owner of the shared one, that too, after all others.

        Raises: BrokerFailed.
        """
        try:
            super().close()
        finally:
            if self._shared is not None:
                self._shared.broker.close()
            self._run.leave()


class SharedAdmins(AdminClients):
    """Clients for brokers that other workers use, too: they refuse what would disturb those."""

    def __init__(self, url: str, token: str, option: str, timeout_s: float = 60.0) -> None:
        super().__init__(lambda: [url], token, timeout_s=timeout_s)
        self._url, self._option = url, option

    def client_of(self, url: str) -> AdminClient:
        """A client that refuses."""
        client = SharedAdmin(url, token=self._token, timeout_s=self._timeout_s)
        client.option = self._option
        return client

    def patient(self, timeout_s: float) -> AdminClients:
        """Others that wait for so long."""
        return SharedAdmins(self._url, self._token, self._option, timeout_s)


class SharedAdmin(AdminClient):
    """A client that refuses what concerns others."""

    option = ""

    def post(self, *segments: object, **fields: object) -> Any:
        """POST these fields.  Raises: AdminError, BrokerFailed."""
        if segments[0] in _FOR_ALL:
            raise BrokerFailed(SHARED % self.option)
        return super().post(*segments, **fields)

    def delete(self, *segments: object, **query: object) -> Any:
        """DELETE what the path names.  Raises: AdminError, BrokerFailed."""
        if segments[0] in (*_FOR_ALL, "journal"):
            raise BrokerFailed(SHARED % self.option)
        return super().delete(*segments, **query)


def _given(wanted: Wanted) -> str:
    """What a test wants of a server, as in the marker; empty: only topics."""
    usual = Wanted()
    names = ("brokers", "tls", "sasl", "acls")
    given = [
        f"{name}={getattr(wanted, name)!r}"
        for name in names
        if getattr(wanted, name) != getattr(usual, name)
    ]
    if wanted.settings:
        given.append(f"settings={dict(wanted.settings)!r}")
    return ", ".join(given)
