"""SCRAM, for a server: two tokens of the client, each answered.

A user that does not exist, or has no credential for the mechanism, gets a challenge like any other,
with a salt that is always the same for this name, and is refused after the proof. So neither the
conversation nor its time tells who exists, as long as users have 4096 iterations and salts like
those of Kafka's admin clients. (Kafka refuses such a user at once.) Except for the authorization
id, the client is never told why it is refused.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Final

from . import scram
from .mechanism import LoginRefused
from .scram_messages import BadScram, ClientFinal, ClientFirst, ServerFinal, ServerFirst

NONCE_BITS: Final = 130
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_WRONG: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)

Credentials = Mapping[str, scram.Credential]
"""Of one mechanism, by user."""


def random_text(random_bits: int) -> str:
    """Write a random number of `NONCE_BITS` as Kafka writes nonces and salts."""
    digits = []
    while random_bits:
        random_bits, digit = divmod(random_bits, 36)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)) or "0"


def salt_of(random_bits: int) -> bytes:
    """A salt as Kafka's admin clients make it: any other form would tell that the user exists."""
    return random_text(random_bits).encode()


def fake_credential(mechanism: scram.Mechanism, secret: bytes, user: str) -> scram.Credential:
    """What a user that does not exist seems to have: the same on all brokers that know `secret`.

    Nobody can prove to have its password, as nobody knows what has this stored key as its hash.
    """
    seed = hmac.digest(secret, f"{mechanism.name}\0{user}".encode(), "sha512")
    bits = int.from_bytes(seed[:17]) >> (17 * 8 - NONCE_BITS)
    return scram.Credential(
        salt=salt_of(bits),
        stored_key=mechanism.hmac(seed, b"stored"),
        server_key=mechanism.hmac(seed, b"server"),
        iterations=scram.ITERATIONS_MIN,
    )


class ScramServer:
    """One login by SCRAM; `new_nonce` returns the server's half of the nonce."""

    expires_ms: int | None = None

    def __init__(
        self,
        mechanism: scram.Mechanism,
        credentials: Credentials,
        *,
        secret: bytes,
        new_nonce: Callable[[], str],
    ) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._secret = secret
        self._new_nonce = new_nonce
        self._first: ClientFirst | None = None
        self._challenge: ServerFirst | None = None
        self._known: scram.Credential | None = None
        self._is_fake = False
        self.is_complete = False
        self.user = ""

    def step(self, token: bytes) -> bytes:
        """Take the client's first message, then its final one.  Raises: LoginRefused."""
        try:
            if self._first is None or self._challenge is None or self._known is None:
                return self._on_first(ClientFirst.parse(token))
            return self._on_final(
                ClientFinal.parse(token), self._first, self._challenge, self._known
            )
        except BadScram as error:
            raise LoginRefused(str(error)) from None

    def _on_first(self, first: ClientFirst) -> bytes:
        self.user = first.name
        if first.token_authenticated:
            raise LoginRefused("delegation tokens are not supported")
        known = self._credentials.get(first.name)
        self._is_fake = known is None
        fake = fake_credential(self._mechanism, self._secret, first.name)
        known = known or fake  # both are made, for the same time
        if first.authzid not in ("", first.name):
            raise LoginRefused(_WRONG, _WRONG)
        if known.iterations < scram.ITERATIONS_MIN:
            raise LoginRefused(
                f"the credential has {known.iterations} iterations, fewer than "
                f"{scram.ITERATIONS_MIN}"
            )
        self._first, self._known = first, known
        self._challenge = ServerFirst(
            nonce=first.nonce + self._new_nonce(), salt=known.salt, iterations=known.iterations
        )
        return self._challenge.encode()

    def _on_final(
        self,
        final: ClientFinal,
        first: ClientFirst,
        challenge: ServerFirst,
        known: scram.Credential,
    ) -> bytes:
        # The client's own part may stand before it once more, as librdkafka before 2.6.1 has it.
        if not final.nonce.endswith(challenge.nonce):
            raise LoginRefused("the client's final message has another nonce")
        signed = scram.auth_message(first.bare, challenge.text, final.bare)
        proves = scram.proves(self._mechanism, known, signed, final.proof)
        if self._is_fake:
            raise LoginRefused("unknown user")
        if not proves:
            raise LoginRefused("wrong password")
        self.is_complete = True
        signature = scram.server_signature(self._mechanism, known.server_key, signed)
        return ServerFinal(signature).encode()
