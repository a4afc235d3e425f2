"""Offline access to a whole tree in ZooKeeper, for commands that run while no broker does.

kazoo is imported only when it is needed.  Many requests are sent at a time: ZooKeeper answers those
of one session in order.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from .interface import CoordinationError, CoordinationLost, Create, Set
from .plain_tree import Change
from .zookeeper import ZooKeeperAccess, acls_by_path
from .zookeeper_address import parse_address

if TYPE_CHECKING:
    from ssl import SSLContext

    from kazoo.client import KazooClient
    from kazoo.handlers.threading import SequentialThreadingHandler

SERVERS: Final = 2
"""So many are tried at least in the time for connecting."""
REFUSED: Final = "ZooKeeper refuses the credentials"
REQUEST_TIMEOUT_S: Final = 30.0
AT_ONCE: Final = 500
OF_ZOOKEEPER: Final = "/zookeeper"

Result = Any  # kazoo's IAsyncResult


class NoKazoo(CoordinationError):
    """kazoo, the ZooKeeper client library, is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "kazoo, which speaks to ZooKeeper, is not installed: pip install 'odradek[zookeeper]'"
        )


class ZooKeeperTree:
    """The nodes below a chroot."""

    def __init__(self, client: "KazooClient", chroot: str, acl_of: Callable[[str], Any]) -> None:
        """`acl_of`: kazoo's list of ACLs for a new node, from its path below the chroot."""
        self._client = client
        self._chroot = chroot
        self._acl_of = acl_of

    def read(self) -> dict[str, bytes]:
        """All nodes except the root, including ephemeral ones; none if the chroot does not exist.

        Raises: CoordinationError.
        """
        nodes: dict[str, bytes] = {}
        level = [""]
        while level:
            below: list[str] = []
            for paths in _chunks(level):
                for path, asked_names, asked_data in [self._look(path) for path in paths]:
                    names = self._answer(asked_names, path or "/")
                    data = self._answer(asked_data, path or "/")
                    if names is None or data is None:
                        continue  # it was deleted meanwhile
                    if path:
                        nodes[path] = data[0] or b""
                    below += [f"{path}/{name}" for name in sorted(names)]
            level = [path for path in below if path != OF_ZOOKEEPER]
        return nodes

    def apply(self, changes: Sequence[Change], on_progress: Callable[[int], None]) -> None:
        """Make the changes, in order; after an error some of them have been made.

        Nodes without data get null data, as from Kafka, which expects that of some of them.
        Raises: CoordinationError.
        """
        if self._chroot:
            acl = self._acl_of("/")
            self._answer(self._client.ensure_path_async(self._chroot, acl=acl), "")
        for chunk in _chunks(changes):
            for change, result in [(change, self._send(change)) for change in chunk]:
                if self._answer(result, change.path) is None:
                    raise CoordinationError(f"{change.path} went away meanwhile: run this again")
            on_progress(len(chunk))

    def _look(self, path: str) -> tuple[str, Result, Result]:
        full = self._full(path)
        return path, self._client.get_children_async(full), self._client.get_async(full)

    def _send(self, change: Change) -> Result:
        path = self._full(change.path)
        if isinstance(change, Create):
            acl = self._acl_of(change.path)
            return self._client.create_async(path, change.data or None, acl=acl)
        if isinstance(change, Set):
            return self._client.set_async(path, change.data or None)
        return self._client.delete_async(path)

    def _full(self, path: str) -> str:
        return f"{self._chroot}{path}" or "/"

    def _answer(self, result: Result, path: str) -> Any:
        """Await ZooKeeper's answer; None if there is no such node.  Raises: CoordinationError."""
        from kazoo.exceptions import (
            AuthFailedError,
            ConnectionClosedError,
            ConnectionLoss,
            KazooException,
            NoAuthError,
            NodeExistsError,
            NoNodeError,
            SessionExpiredError,
        )

        try:
            return result.get(timeout=REQUEST_TIMEOUT_S)
        except NoNodeError:
            return None
        except NodeExistsError as error:
            raise CoordinationError(f"{path} was made meanwhile: run this again") from error
        except NoAuthError as error:
            raise CoordinationError(f"ZooKeeper lets only others use {path}: its ACL") from error
        except AuthFailedError as error:  # SASL begins when the session is there
            raise CoordinationLost(REFUSED) from error
        except (ConnectionLoss, ConnectionClosedError, SessionExpiredError) as error:
            raise CoordinationLost("ZooKeeper hung up: run this again") from error
        except self._client.handler.timeout_exception as error:
            raise CoordinationLost("ZooKeeper does not answer: run this again") from error
        except KazooException as error:
            raise CoordinationError(f"ZooKeeper refuses {path}: {error!r}") from error


@contextmanager
def zookeeper_tree(address: str, access: ZooKeeperAccess) -> Iterator[ZooKeeperTree]:
    """The tree at `HOST:PORT,HOST:PORT/chroot`, as in zookeeper.connect.

    Raises: CoordinationError.
    """
    try:
        from kazoo.client import KazooClient, KeeperState
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError as error:
        raise NoKazoo from error

    hosts, chroot = parse_address(address)
    silent = logging.getLogger("odradek.kazoo")  # the exceptions report what went wrong
    silent.addHandler(logging.NullHandler())
    silent.propagate = False
    client = KazooClient(
        hosts=hosts,
        # kazoo also waits so long for one server that is silent, and others must have their turn.
        timeout=min(access.session_timeout_ms, access.connection_timeout_ms / SERVERS) / 1000,
        logger=silent,
        handler=None if access.tls is None else _with_tls(access.tls),
        **(access.client_options or {}),
    )
    refusals = []

    def note_refusal(state: str) -> None:
        if client.client_state == KeeperState.AUTH_FAILED:
            refusals.append(state)

    client.add_listener(note_refusal)
    try:
        client.start(timeout=access.connection_timeout_ms / 1000)
    except (KazooTimeoutError, OSError, ValueError) as error:
        client.stop()
        client.close()
        if refusals:
            raise CoordinationLost(REFUSED) from error
        raise CoordinationLost(f"ZooKeeper cannot be reached at {hosts}") from error
    try:
        yield ZooKeeperTree(client, chroot, acls_by_path(set_acl=access.set_acl))
    finally:
        client.stop()
        client.close()


def _with_tls(tls: "SSLContext") -> "SequentialThreadingHandler":
    from kazoo.handlers.threading import SequentialThreadingHandler

    from .zookeeper_handler import held_by_tls

    class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
        """kazoo's own handler, with our context in place of the one that it would make."""

        def create_connection(self, *args: Any, **options: Any) -> Any:
            connection = super().create_connection(*args, **options)
            return tls.wrap_socket(connection, server_hostname=options["hostname"])

        def select(self, reading: Any, *others: Any) -> Any:
            if decrypted := held_by_tls(reading):
                return decrypted, [], []
            return super().select(reading, *others)

    return TlsHandler()


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    rest = iter(items)
    while chunk := list(islice(rest, AT_ONCE)):
        yield chunk
