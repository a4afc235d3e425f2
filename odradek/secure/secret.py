"""A new password of a user who logs in by SCRAM, as stores and brokers get it."""

import secrets
from typing import NamedTuple, Self

from odradek.broker.sasl.credentials import encode_credential
from odradek.broker.sasl.known_users import NONCE_BITS, salt_of
from odradek.broker.sasl.scram import ITERATIONS_MIN, MECHANISMS, credential, salted_password
from odradek.protocol.messages.k51_alter_user_scram_credentials import ScramCredentialUpsertion


class Secret(NamedTuple):
    """A new credential; it is never printed."""

    mechanism: str
    iterations: int
    salt: bytes
    password: str

    def __repr__(self) -> str:
        return f"Secret({self.mechanism})"

    @classmethod
    def new(cls, mechanism: str, password: str, iterations: int = ITERATIONS_MIN) -> Self:
        """One with a salt that nobody can guess."""
        return cls(mechanism, iterations, salt_of(secrets.randbits(NONCE_BITS)), password)

    def salted(self) -> bytes:
        """The stretched password, which is all that a broker gets."""
        mechanism = MECHANISMS[self.mechanism]
        return salted_password(mechanism, self.password, salt=self.salt, iterations=self.iterations)

    def stored(self) -> str:
        """The text that a store keeps."""
        mechanism = MECHANISMS[self.mechanism]
        known = credential(mechanism, self.salted(), salt=self.salt, iterations=self.iterations)
        return encode_credential(known)

    def upsertion(self, user: str) -> ScramCredentialUpsertion:
        """What a request has that gives it to a user."""
        return ScramCredentialUpsertion(
            name=user,
            mechanism=MECHANISMS[self.mechanism].number,
            iterations=self.iterations,
            salt=self.salt,
            salted_password=self.salted(),
        )
