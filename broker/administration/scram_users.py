"""SCRAM users in the store: describing and changing them as Kafka does.

A user's credentials are entries of /config/users/U, beside the user's quotas. A change writes only
entries of its own, and only if the config is still the one that was read. It is answered once this
broker knows it. A user of a request is refused as a whole: if one of its changes is wrong, none is
made.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused

from ..coordination import znodes
from ..coordination.configs import read_config
from ..coordination.interface import Create, NoNode, Op, Session, Set
from ..core.client_quotas import decode_name, encode_name
from ..sasl.credentials import credentials_in, encode_credential
from ..sasl.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    Credential,
    Mechanism,
    credential,
)
from .config_writes import ABSENT, change_config
from .dynamic_configs import DynamicConfigs
from .store_failures import needs_store

CONFIG_USERS: Final = "/config/users"
BY_NUMBER: Final = {mechanism.number: mechanism for mechanism in MECHANISMS.values()}
_KEYS_OF_NOTHING: Final = {
    number: credential(mechanism, b"", salt=b"", iterations=ITERATIONS_MIN).stored_key
    for number, mechanism in BY_NUMBER.items()
}
"""What is stored of an empty salted password, or of one of zeros, which is the same to HMAC."""

Iterations = Mapping[Mechanism, int]
"""What clients may know of a user: the iterations, by mechanism."""


class Change(NamedTuple):
    """A credential to set, or to delete (None), for the mechanism with this number."""

    user: str
    mechanism_number: int
    credential: Credential | None


class ScramUsers:
    """The users who can log in by SCRAM, in the whole cluster."""

    def __init__(self, session: Session, dynamic_configs: DynamicConfigs) -> None:
        self._session = session
        self._dynamic_configs = dynamic_configs

    # Describing.

    @needs_store
    async def describe_all(self) -> dict[str, Iterations]:
        """All users that have a credential.  Raises: Refused (UNKNOWN_SERVER_ERROR)."""
        try:
            nodes = await self._session.children(CONFIG_USERS)
        except NoNode:
            return {}
        found = {}
        for node in nodes:
            user = decode_name(node)
            if user is not None and (known := await self._known(user)):
                found[user] = known
        return found

    @needs_store
    async def describe(self, user: str) -> Iterations:
        """A user, who may have none.  Raises: Refused (UNKNOWN_SERVER_ERROR)."""
        _check_name(user)
        return await self._known(user)

    async def _known(self, user: str) -> Iterations:
        config = await read_config(self._session, f"{CONFIG_USERS}/{encode_name(user)}")
        found = credentials_in(config, user)
        return {MECHANISMS[name]: known.iterations for name, known in found.items()}

    # Changing.

    async def alter(self, changes: Sequence[Change]) -> dict[str, Refused | None]:
        """Change each user; return, for each, why it was refused, or None."""
        results: dict[str, Refused | None] = {}
        by_user: dict[str, list[Change]] = {}
        for change in changes:
            by_user.setdefault(change.user, []).append(change)
        for user, own in by_user.items():
            try:
                check_changes(own)
                _check_name(user)
                await self._alter_user(user, own)
                results[user] = None
            except Refused as refused:
                # Its traceback would hold `results`, and so never be freed.
                results[user] = refused.with_traceback(None)
        return results

    async def _alter_user(self, user: str, changes: Sequence[Change]) -> None:
        entity_path = f"users/{encode_name(user)}"

        async def plan(config: dict[str, str], version: int) -> Sequence[Op]:
            data = znodes.encode_config(changed(config, changes))
            if version != ABSENT:
                return [Set(f"/config/{entity_path}", data, version)]
            has_folder = await self._session.exists(CONFIG_USERS) is not None
            folder = [] if has_folder else [Create(CONFIG_USERS)]
            return [*folder, Create(f"/config/{entity_path}", data)]

        too_large = ErrorCode.UNACCEPTABLE_CREDENTIAL
        number = await change_config(self._session, entity_path, plan, too_large=too_large)
        await self._dynamic_configs.until_applied(number)


def _check_name(user: str) -> None:
    if user in (".", ".."):  # Kafka has no better code for what is no name of a node
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"{user!r} is no name for a user")


def check_changes(changes: Sequence[Change]) -> None:
    """Check the changes of one user.

    Raises: Refused (UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM, DUPLICATE_RESOURCE).
    """
    # Kafka looks at deletions first, and tells of the last fault.
    deletions_first = sorted(changes, key=_is_set)
    for change in reversed(deletions_first):
        _check_change(change)
    if len({change.mechanism_number for change in changes}) < len(changes):
        raise Refused(
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        )


def _is_set(change: Change) -> bool:
    return change.credential is not None


def _check_change(change: Change) -> None:
    """Raises: Refused (UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM)."""
    if not change.user:
        raise _unacceptable("Username must not be empty")
    if change.mechanism_number not in BY_NUMBER:
        raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if change.credential is not None and change.credential.iterations < ITERATIONS_MIN:
        raise _unacceptable("Too few iterations")
    if change.credential is not None and change.credential.iterations > ITERATIONS_MAX:
        raise _unacceptable("Too many iterations")
    if (
        change.credential is not None
        and change.credential.stored_key == _KEYS_OF_NOTHING[change.mechanism_number]
    ):
        raise _unacceptable("Salted password must not be empty")


def changed(config: Mapping[str, str], changes: Sequence[Change]) -> dict[str, str]:
    """A user's config after its changes; all other entries stay.

    Raises: Refused (RESOURCE_NOT_FOUND).
    """
    result = dict(config)
    for change in changes:
        name = BY_NUMBER[change.mechanism_number].name
        if change.credential is not None:
            result[name] = encode_credential(change.credential)
        elif result.pop(name, None) is None:
            raise Refused(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
    return result


def _unacceptable(message: str) -> Refused:
    return Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
