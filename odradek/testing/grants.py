"""The users and ACLs of a fixture, added by requests to a running broker."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from odradek.broker.core.acls.terms import Binding
from odradek.broker.sasl.scram import ITERATIONS_MIN, MECHANISMS, salted_password
from odradek.broker.sasl.scram_server import NONCE_BITS, salt_of
from odradek.client_configs import Access
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k30_create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from odradek.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)

from .connection import Connection
from .errors import BrokerFailed
from .ready import Address

ALTER_USERS_VERSION: Final = 0
CREATE_ACLS_VERSION: Final = 3


def add_users(
    address: Address, access: Access, passwords: Mapping[str, str], *, timeout_s: float
) -> None:
    """Let users log in by SCRAM.  Raises: BrokerFailed."""
    mechanism = MECHANISMS[access.mechanism or ""]
    upsertions = []
    for user, password in passwords.items():
        salt = salt_of(secrets.randbits(NONCE_BITS))
        salted = salted_password(mechanism, password, salt=salt, iterations=ITERATIONS_MIN)
        upsertions.append(
            ScramCredentialUpsertion(
                name=user,
                mechanism=mechanism.number,
                iterations=ITERATIONS_MIN,
                salt=salt,
                salted_password=salted,
            )
        )
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
    creations = [
        AclCreation(
            resource_type=pattern.resource_type,
            resource_name=pattern.name,
            resource_pattern_type=pattern.pattern_type,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        for pattern, entry in bindings
    ]
    with Connection(address, access, timeout_s=timeout_s) as connection:
        answer = connection.ask(
            CreateAclsRequest(creations=creations), CREATE_ACLS_VERSION, CreateAclsResponse
        )
    for binding, result in zip(bindings, answer.results, strict=True):
        if result.error_code:
            reason = result.error_message or ErrorCode(result.error_code).name
            raise BrokerFailed(f"the ACL for {binding.entry.principal}: {reason}")
