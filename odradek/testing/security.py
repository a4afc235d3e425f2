"""What a fixture's brokers need for TLS, logins and ACLs, and what their clients need.

The user `admin` may do everything; the fixture itself uses it.
"""

import secrets
from collections.abc import Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odradek.client_configs import OAUTHBEARER, OPEN, Access
from odradek.jaas import jaas_text

from .errors import BrokerFailed, hides
from .ready import Address
from .scratch import write_for_owner

if TYPE_CHECKING:
    from odradek.broker.core.acls.terms import Binding

__tracebackhide__ = hides
HOST: Final = "127.0.0.1"
ADMIN: Final = "admin"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)
IN_SETTINGS: Final = (None, "PLAIN", OAUTHBEARER)
"""With these, no users need to be in the store."""
AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
_PASSWORD_BYTES: Final = 12


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end, although a loop may be running in this thread."""
    import asyncio  # here, as only some brokers need it
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as beside:
        beside.submit(asyncio.run, work).result()


class Security:
    """The security of the brokers of one fixture."""

    def __init__(self, *, tls: bool, sasl: str | None, acls: Sequence[str] | None) -> None:
        """Raises: ValueError."""
        if not isinstance(tls, bool):
            raise ValueError(f"tls={tls!r} is neither True nor False")
        if sasl is not None and sasl not in MECHANISMS:
            raise ValueError(f"sasl={sasl!r}: one of {', '.join(MECHANISMS)}")
        if acls is not None and sasl is None:
            raise ValueError("acls are about users, who must log in: give sasl")
        self._tls = tls
        self._bindings: list[Binding] = []
        self._is_prepared = self._has_users = False
        self._passwords: dict[str, str] = {}
        self.settings: dict[str, str] = {}
        """The settings of the brokers."""
        self.access = OPEN._replace(mechanism=sasl, username=ADMIN if sasl else "")
        """How the fixture itself reaches the brokers."""
        if acls is not None:
            from .acls import parse_acls, users_of

            self._bindings = parse_acls(acls)
            users = users_of(self._bindings)
            self.settings |= {"authorizer.class.name": AUTHORIZER, "super.users": f"User:{ADMIN}"}
        else:
            users = set()
        if sasl is not None:
            self._passwords = {
                user: secrets.token_urlsafe(_PASSWORD_BYTES) for user in (ADMIN, *sorted(users))
            }
            self.access = self.access._replace(password=self._passwords[ADMIN])

    @property
    def protocol(self) -> str:
        """The security protocol of the brokers' listener."""
        transport = "SSL" if self._tls else "PLAINTEXT"
        return transport if self.access.mechanism is None else f"SASL_{transport}"

    @property
    def has_grants_to_make(self) -> bool:
        """Whether `add_users_and_acls` is still to be called."""
        return self.access.mechanism is not None and not self._has_users

    def access_of(self, user: str | None) -> Access:
        """How a user reaches the brokers; None: the one that may do everything.

        Raises: ValueError for a user that no ACL names.
        """
        if user is None:
            return self.access
        if user not in self._passwords:
            known = ", ".join(self._passwords) or "none, as there is no sasl"
            raise ValueError(f"there is no user {user!r}: {known}; a user is whom acls name")
        return self.access._replace(username=user, password=self._passwords[user])

    def prepare(self, directory: Path, *, is_cluster: bool) -> None:
        """Make certificates and logins, before the first start.  Raises: BrokerFailed."""
        if self._is_prepared:
            return
        if self._tls:
            self._make_certificates(directory, is_cluster=is_cluster)
        if self.access.mechanism is not None:
            self._offer_login(self.access.mechanism, is_cluster=is_cluster)
        self._is_prepared = True

    def add_first_user(self, data_dir: Path) -> None:
        """Write the user `admin` into the store of a broker that has not run yet."""
        mechanism = self._mechanism_of_first_user
        if mechanism is None:
            return
        from odradek.broker.server import STORE_FILE
        from odradek.secure.first_user import add_to_directory

        add = add_to_directory(
            str(data_dir), STORE_FILE, ADMIN, mechanism, self._passwords[ADMIN], replace=True
        )
        _run(add)

    def add_first_user_to_zookeeper(self, settings: Mapping[str, str]) -> None:
        """Write the user `admin` into ZooKeeper: brokers log in by it.  Raises: BrokerFailed."""
        mechanism = self._mechanism_of_first_user
        if mechanism is None:
            return
        from odradek.broker.config import Config
        from odradek.broker.coordination.interface import CoordinationError
        from odradek.broker.coordination.zookeeper import zookeeper_store
        from odradek.secure.first_user import add_user

        tops = ("zookeeper.", "odradek.zookeeper.")
        of_zookeeper = {name: text for name, text in settings.items() if name.startswith(tops)}

        async def add() -> None:
            store = zookeeper_store(Config(of_zookeeper))
            try:
                await add_user(store, ADMIN, mechanism, self._passwords[ADMIN], replace=True)
            finally:
                await store.close()

        try:
            _run(add())
        except CoordinationError as error:
            raise BrokerFailed(f"the user {ADMIN} cannot be added to ZooKeeper: {error}") from error

    @property
    def _mechanism_of_first_user(self) -> str | None:
        """The mechanism that needs `admin` in the store before a broker runs; else None."""
        mechanism = self.access.mechanism
        return None if mechanism in IN_SETTINGS or self._has_users else mechanism

    def add_users_and_acls(
        self, controller: Address, brokers: Sequence[Address], *, timeout_s: float
    ) -> None:
        """Add the other users and the ACLs; return once all brokers know them.

        Raises: BrokerFailed.
        """
        from .grants import add_acls, add_users, wait_for_acls, wait_for_users

        others = {user: word for user, word in self._passwords.items() if user != ADMIN}
        if others and self.access.mechanism not in IN_SETTINGS:
            add_users(controller, self.access, others, timeout_s=timeout_s)
            accesses = [self.access_of(user) for user in others]
            wait_for_users(brokers, accesses, timeout_s=timeout_s)
        if self._bindings:
            add_acls(controller, self.access, self._bindings, timeout_s=timeout_s)
            count = len(set(self._bindings))
            wait_for_acls(brokers, self.access, count, timeout_s=timeout_s)
        self._has_users = True

    def _make_certificates(self, directory: Path, *, is_cluster: bool) -> None:
        from odradek.broker.settings.declaration import ConfigError

        try:
            from odradek.secure.authority import Authority
        except ConfigError as error:
            raise BrokerFailed(str(error)) from None
        now = datetime.now(UTC)
        authority = Authority.make("Odradek test authority", now)
        broker = authority.issue("broker", [HOST, "localhost"], now)
        trusted, store = directory / "authority.pem", directory / "broker.pem"
        trusted.write_bytes(authority.pem.certificate)
        write_for_owner(store, broker.store.decode())
        self.settings["ssl.keystore.location"] = str(store)
        if is_cluster:
            self.settings["ssl.truststore.location"] = str(trusted)
        self.access = self.access._replace(authority=str(trusted))

    def _offer_login(self, mechanism: str, *, is_cluster: bool) -> None:
        """Let clients log in by this mechanism, and the brokers of a cluster with each other."""
        options = {"username": ADMIN, "password": self._passwords[ADMIN]} if is_cluster else {}
        if mechanism == OAUTHBEARER:
            options = {"unsecuredLoginStringClaim_sub": ADMIN}
        if mechanism == "PLAIN":
            options |= {f"user_{user}": word for user, word in self._passwords.items()}
        self.settings["sasl.enabled.mechanisms"] = mechanism
        name = f"listener.name.{self.protocol.lower()}.{mechanism.lower()}.sasl.jaas.config"
        self.settings[name] = jaas_text(mechanism, **options)
        if is_cluster:
            self.settings["inter.broker.listener.name"] = self.protocol
            self.settings["sasl.mechanism.inter.broker.protocol"] = mechanism
