"""The coordination store in ZooKeeper, accessed through kazoo.

Each session is a kazoo client with its own connection and thread (`zookeeper_session.py`).  kazoo
is imported when a session is opened.
"""

import asyncio
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .interface import CoordinationError, CoordinationLost, SessionExpired, StoreError
from .zookeeper_address import parse_address

if TYPE_CHECKING:
    from ssl import SSLContext

    from odradek.broker.config import Config

    from .zookeeper_session import ZooKeeperSession

RECONNECT_DELAY_S: Final = 0.05
RECONNECT_DELAY_MAX_S: Final = 1.0
IN_FLIGHT_MAX: Final = 100
OPEN_TO_ALL: Final = ("/consumers",)
SECRET: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens", "/odradek")


class ZooKeeperStore:
    """A `Store` in ZooKeeper.  Its only connections are those of its sessions."""

    def __init__(
        self,
        address: str,
        *,
        connection_timeout_ms: int,
        in_flight_max: int = IN_FLIGHT_MAX,
        set_acl: bool = False,
        make_chroot: bool = True,
        tls: "SSLContext | None" = None,
        client_options: dict[str, Any] | None = None,
    ) -> None:
        """`address`: HOST:PORT,HOST:PORT/chroot.  `client_options`: kazoo's, for authentication.
        `set_acl`: only clients with the same credentials may write this broker's nodes.
        `make_chroot`: create the chroot if it is missing.

        Raises: StoreError.
        """
        self.hosts, self.chroot = parse_address(address)
        self._connection_timeout_ms = connection_timeout_ms
        self._in_flight_max = in_flight_max
        self._set_acl = set_acl
        self._make_chroot = make_chroot
        self._tls = tls
        self._client_options = client_options or {}
        self._sessions: set[ZooKeeperSession] = set()
        self._closed = False
        self._is_cut_off = False

    @property
    def sessions(self) -> "list[ZooKeeperSession]":
        """The sessions that have not ended."""
        return [session for session in self._sessions if not session.is_ended]

    async def open_session(
        self, timeout_ms: int, on_end: Callable[[CoordinationError], None] | None = None
    ) -> "ZooKeeperSession":
        """Connect; ZooKeeper may limit `timeout_ms` to its own bounds.

        Raises: StoreError (kazoo is missing, or ZooKeeper can't be reached in time),
        CoordinationLost (the credentials are refused).
        """
        if self._closed:
            raise CoordinationLost("the store is closed")
        if self._is_cut_off:
            raise StoreError("ZooKeeper cannot be reached: a test has cut the network")
        try:
            import kazoo  # noqa: F401
        except ImportError as error:
            raise StoreError(
                "kazoo, which speaks to ZooKeeper, is not installed: "
                "pip install 'odradek[zookeeper]'"
            ) from error
        from kazoo.retry import KazooRetry

        from .zookeeper_requests import Below
        from .zookeeper_session import ZooKeeperSession

        retry = KazooRetry(max_tries=-1, delay=RECONNECT_DELAY_S, max_delay=RECONNECT_DELAY_MAX_S)
        session = ZooKeeperSession(
            self.hosts,
            Below(self.chroot, acls_by_path(set_acl=self._set_acl)),
            timeout_ms=timeout_ms,
            in_flight_max=self._in_flight_max,
            tls=self._tls,
            client_options={"connection_retry": retry, **self._client_options},
            on_end=on_end,
        )
        try:
            await session.open(self._connection_timeout_ms / 1000, make_chroot=self._make_chroot)
        except SessionExpired as error:
            raise StoreError(f"ZooKeeper has ended a new session: {error}") from error
        self._sessions = {*self.sessions, session}
        if self._is_cut_off:
            session.cut_off()
        return session

    def cut_off(self) -> None:
        """End the connections, and make no other ones until `let_through`, as a test wants it.

        ZooKeeper expires the sessions at their timeout.
        """
        self._is_cut_off = True
        for session in self.sessions:
            session.cut_off()

    def let_through(self) -> None:
        """The end of `cut_off`."""
        self._is_cut_off = False
        for session in self.sessions:
            session.let_through()

    async def close(self) -> None:
        """End all sessions; their pending operations are finished first, if ZooKeeper answers."""
        self._closed = True
        sessions, self._sessions = self._sessions, set()
        await asyncio.gather(*[session.close() for session in sessions])


class ZooKeeperAccess(NamedTuple):
    """How a client connects to ZooKeeper and makes itself known there."""

    connection_timeout_ms: int
    session_timeout_ms: int
    tls: "SSLContext | None" = None
    client_options: dict[str, Any] | None = None
    """kazoo's, for authentication."""
    set_acl: bool = False
    """Whether only clients with the same credentials may write the nodes that it creates."""


def zookeeper_access(config: "Config") -> ZooKeeperAccess:
    """What the settings say.  Raises: StoreError (missing library, unusable TLS files)."""
    session_timeout_ms = config.zookeeper_session_timeout_ms
    connection_timeout_ms = config.zookeeper_connection_timeout_ms
    return ZooKeeperAccess(
        session_timeout_ms if connection_timeout_ms is None else connection_timeout_ms,
        session_timeout_ms,
        _tls_context(config),
        _auth_options(config),
        config.zookeeper_set_acl,
    )


def zookeeper_store(config: "Config", *, make_chroot: bool = True) -> ZooKeeperStore:
    """The store at `zookeeper.connect`; it does not connect yet.

    Raises: StoreError (malformed address, missing library, unusable TLS files).
    """
    access = zookeeper_access(config)
    return ZooKeeperStore(
        config.zookeeper_connect or "",
        connection_timeout_ms=access.connection_timeout_ms,
        in_flight_max=config.zookeeper_max_in_flight_requests,
        set_acl=access.set_acl,
        make_chroot=make_chroot,
        tls=access.tls,
        client_options=access.client_options,
    )


def _tls_context(config: "Config") -> "SSLContext | None":
    if not config.zookeeper_ssl_client_enable:
        return None
    import ssl

    own = config.zookeeper_ssl_keystore_location
    authorities = config.zookeeper_ssl_truststore_location
    _check_format("keystore", own, config.zookeeper_ssl_keystore_type)
    _check_format("truststore", authorities, config.zookeeper_ssl_truststore_type)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    algorithm = config.zookeeper_ssl_endpoint_identification_algorithm
    context.check_hostname = algorithm.upper() == "HTTPS"
    try:
        if authorities is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(authorities)
    except OSError as error:
        raise StoreError(f"zookeeper.ssl.truststore.location={authorities}: {error}") from error
    try:
        if own is not None:
            # Without a password OpenSSL would prompt at the terminal if the key is encrypted.
            context.load_cert_chain(own, own, config.zookeeper_ssl_keystore_password or "")
    except OSError as error:
        raise StoreError(f"zookeeper.ssl.keystore.location={own}: {error}") from error
    return context


def _check_format(store: str, location: str | None, kind: str | None) -> None:
    """Raises: StoreError unless it is PEM, by its type or else its extension, as in Kafka."""
    if location is not None and (kind or location.rpartition(".")[2]).upper() != "PEM":
        raise StoreError(
            f"zookeeper.ssl.{store}.location={location}: only PEM files can be read; convert it, "
            f"with openssl for example, and set zookeeper.ssl.{store}.type=PEM"
        )


def _auth_options(config: "Config") -> dict[str, Any]:
    name, password = config.odradek_zookeeper_auth_username, config.odradek_zookeeper_auth_password
    if name is None or password is None:
        return {}
    if config.odradek_zookeeper_auth_scheme == "digest":
        return {"auth_data": [("digest", f"{name}:{password}")]}
    if find_spec("puresasl") is None:
        raise StoreError(
            "pure-sasl, which odradek.zookeeper.auth.scheme=sasl needs, is not installed: "
            "pip install 'odradek[zookeeper]'"
        )
    return {"sasl_options": {"mechanism": "DIGEST-MD5", "username": name, "password": password}}


def acls_by_path(*, set_acl: bool) -> Callable[[str], Any]:
    """Return a function from a new node's path to its ACL, which is the same as Kafka's."""
    from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

    def acl_of(path: str) -> Any:
        if not set_acl or _is_below(path, OPEN_TO_ALL):
            return OPEN_ACL_UNSAFE
        if _is_below(path, SECRET):
            return CREATOR_ALL_ACL
        return CREATOR_ALL_ACL + READ_ACL_UNSAFE

    return acl_of


def _is_below(path: str, tops: tuple[str, ...]) -> bool:
    return any(path == top or path.startswith(f"{top}/") for top in tops)
