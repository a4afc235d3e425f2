"""SCRAM users of a cluster: in a store, or kept by its brokers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from odradek.broker.administration.config_writes import ABSENT, controller_check
from odradek.broker.administration.scram_users import CONFIG_USERS
from odradek.broker.coordination import znodes
from odradek.broker.coordination.interface import (
    BadVersion,
    Create,
    MultiFailed,
    NodeExists,
    NoNode,
    Op,
    Session,
    Set,
)
from odradek.broker.core.client_quotas import decode_name, encode_name
from odradek.broker.member.membership import make_path
from odradek.broker.sasl.credentials import credentials_in
from odradek.broker.sasl.scram import MECHANISMS
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from odradek.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
)
from odradek.secure.first_user import read_user
from odradek.secure.secret import Secret

from .brokers import Brokers, brokers_of, refusal
from .cluster_view import controller_of, view
from .doors import Door, Stored
from .errors import CommandError

_NAMES: Final = {mechanism.number: name for name, mechanism in MECHANISMS.items()}

Iterations = Mapping[str, int]
"""What is shown of a user: the iterations, by mechanism."""


class Users(Protocol):
    """The SCRAM users of a cluster.  Every method may raise CommandError."""

    def described(self, names: Sequence[str]) -> dict[str, Iterations]:
        """Those of these names that have a credential; all users if there are no names."""
        ...

    def set(self, name: str, secrets: Sequence[Secret]) -> None:
        """Give a user credentials; those for other mechanisms stay."""
        ...

    def delete(self, name: str, mechanisms: Sequence[str]) -> None:
        """Delete credentials that the user has."""
        ...


@contextmanager
def users_behind(door: Door, *, writes: bool) -> Iterator[Users]:
    """The users in the store or cluster.  Raises: CommandError."""
    if door.is_store:
        with door.open(writes=writes) as stored:
            yield StoredUsers(stored)
    else:
        with brokers_of(door.cluster) as brokers:
            yield ClusterUsers(brokers)


class StoredUsers:
    """Users in a store: entries of /config/users/U, beside the user's quotas.

    Kafka's brokers, if any run, are told of a change as by Kafka's own tool.
    """

    def __init__(self, stored: Stored) -> None:
        self._stored = stored

    def described(self, names: Sequence[str]) -> dict[str, Iterations]:
        """As `Users`."""
        return self._stored.run(_described(self._stored.session, names))

    def set(self, name: str, secrets: Sequence[Secret]) -> None:
        """As `Users`."""
        new = {secret.mechanism: secret.stored() for secret in secrets}
        self._stored.run(_change(self._stored.session, name, new))

    def delete(self, name: str, mechanisms: Sequence[str]) -> None:
        """As `Users`."""
        self._stored.run(_change(self._stored.session, name, dict.fromkeys(mechanisms)))


async def _described(session: Session, names: Sequence[str]) -> dict[str, Iterations]:
    if not names:
        try:
            nodes = await session.children(CONFIG_USERS)
        except NoNode:
            return {}
        names = [name for node in nodes if (name := decode_name(node)) is not None]
    found: dict[str, Iterations] = {}
    for name in names:
        config, _ = await read_user(session, name)
        if known := credentials_in(config, name):
            found[name] = {mechanism: one.iterations for mechanism, one in known.items()}
    return found


async def _change(session: Session, name: str, changes: Mapping[str, str | None]) -> None:
    """Write entries, None deletes one, and a notification for all brokers.

    Raises: MalformedZnode, CommandError.
    """
    entity_path = f"users/{encode_name(name)}"
    for path in (CONFIG_USERS, znodes.CONFIG_CHANGES):
        await make_path(session, path)
    while True:
        config, version = await read_user(session, name)
        entries = {**config, **changes}
        data = znodes.encode_config({k: v for k, v in entries.items() if v is not None})
        path = f"/config/{entity_path}"
        told = Create(
            znodes.CONFIG_CHANGE_PREFIX, znodes.encode_config_change(entity_path), sequential=True
        )
        write: Op = Create(path, data) if version == ABSENT else Set(path, data, version)
        try:
            await session.multi([*await _conditions(session), write, told])
        except MultiFailed as failed:
            if not isinstance(failed.error, BadVersion | NoNode | NodeExists):
                raise
        else:
            return


async def _conditions(session: Session) -> list[Op]:
    """A controller need not be there, but must not be one that reads from KRaft instead."""
    if await session.exists(znodes.CONTROLLER) is None:
        return []
    try:
        return [await controller_check(session)]
    except Refused as refused:
        raise CommandError(f"nothing was written: {refused}") from None


class ClusterUsers:
    """Users that brokers keep (KIP-554)."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def described(self, names: Sequence[str]) -> dict[str, Iterations]:
        """As `Users`."""
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=n) for n in names])
        answer = self._brokers.ask(request, DescribeUserScramCredentialsResponse)
        if answer.error_code:
            raise refusal("users", answer.error_code, answer.error_message)
        found: dict[str, Iterations] = {}
        for user in answer.results:
            if user.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                continue
            if user.error_code:
                raise refusal(user.user, user.error_code, user.error_message)
            infos = sorted(user.credential_infos, key=lambda info: info.mechanism)
            found[user.user] = {
                _NAMES.get(info.mechanism, f"mechanism {info.mechanism}"): info.iterations
                for info in infos
            }
        return found

    def set(self, name: str, secrets: Sequence[Secret]) -> None:
        """As `Users`."""
        upsertions = [secret.upsertion(name) for secret in secrets]
        self._alter(AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions))

    def delete(self, name: str, mechanisms: Sequence[str]) -> None:
        """As `Users`."""
        deletions = [
            ScramCredentialDeletion(name=name, mechanism=MECHANISMS[mechanism].number)
            for mechanism in mechanisms
        ]
        self._alter(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[]))

    def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        controller = controller_of(view(self._brokers, []))
        answer = self._brokers.ask(request, AlterUserScramCredentialsResponse, node_id=controller)
        for user in answer.results:
            if user.error_code:
                raise refusal(user.user, user.error_code, user.error_message)
