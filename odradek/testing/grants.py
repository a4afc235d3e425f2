"""The users and ACLs of a fixture, added by requests to a running broker."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from odradek.broker.core.acls.creations import creations_of
from odradek.broker.core.acls.terms import Binding
from odradek.client_configs import Access
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse
from odradek.protocol.messages.k30_create_acls import (
    CreateAclsRequest,
    CreateAclsResponse,
)
from odradek.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from odradek.secure.secret import Secret

from .connection import Connection
from .errors import BrokerFailed, hides
from .ready import Address

__tracebackhide__ = hides
ALTER_USERS_VERSION: Final = 0
# The first ones with prefixes: any release that has users has them.
CREATE_ACLS_VERSION: Final = 1
DESCRIBE_ACLS_VERSION: Final = 1
ANY: Final = 1
POLL_S: Final = 0.02


def add_users(
    address: Address, access: Access, passwords: Mapping[str, str], *, timeout_s: float
) -> None:
    """Let users log in by SCRAM.  Raises: BrokerFailed."""
    mechanism = access.mechanism or ""
    upsertions = [
        Secret.new(mechanism, password).upsertion(user) for user, password in passwords.items()
    ]
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions)
    with Connection(address, access, timeout_s=timeout_s) as connection:
        answer = connection.ask(request, ALTER_USERS_VERSION, AlterUserScramCredentialsResponse)
    for result in answer.results:
        if result.error_code:
            raise BrokerFailed(f"user {result.user}: {ErrorCode(result.error_code).name}")


def add_acls(
    address: Address, access: Access, bindings: Sequence[Binding], *, timeout_s: float
) -> None:
    """Add ACLs.  Raises: BrokerFailed."""
    request = CreateAclsRequest(creations=creations_of(bindings))
    with Connection(address, access, timeout_s=timeout_s) as connection:
        answer = connection.ask(request, CREATE_ACLS_VERSION, CreateAclsResponse)
    for binding, result in zip(bindings, answer.results, strict=True):
        if result.error_code:
            reason = result.error_message or ErrorCode(result.error_code).name
            raise BrokerFailed(f"the ACL for {binding.entry.principal}: {reason}")


def wait_for_users(
    brokers: Sequence[Address], accesses: Sequence[Access], *, timeout_s: float
) -> None:
    """Return once all brokers let all users in.  Raises: BrokerFailed."""

    def lets_in(address: Address, access: Access) -> bool:
        try:
            with Connection(address, access, timeout_s=timeout_s):
                return True
        except PermissionError:
            return False

    for address in brokers:
        for access in accesses:
            _wait(partial(lets_in, address, access), f"user {access.username}", timeout_s)


def wait_for_acls(
    brokers: Sequence[Address], access: Access, count: int, *, timeout_s: float
) -> None:
    """Return once all brokers have at least so many ACLs.  Raises: BrokerFailed."""
    request = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )

    def knows(connection: Connection) -> bool:
        answer = connection.ask(request, DESCRIBE_ACLS_VERSION, DescribeAclsResponse)
        return sum(len(resource.acls) for resource in answer.resources) >= count

    for address in brokers:
        with Connection(address, access, timeout_s=timeout_s) as connection:
            _wait(partial(knows, connection), f"{count} ACLs", timeout_s)


def _wait(is_done: Callable[[], bool], what: str, timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not is_done():
        if time.monotonic() > deadline_s:
            raise BrokerFailed(f"a broker does not know of {what} after {timeout_s:g} s")
        time.sleep(POLL_S)
