"""SCRAM, for a server: two tokens of the client, each answered.

A user that does not exist, or has no credential for the mechanism, gets a challenge like any other
(see `known_users`), and is refused after the proof. So neither the conversation nor its time tells
who exists. (Kafka refuses such a user at once.) Except for the authorization id, the client is
never told why it is refused.
"""

from collections.abc import Callable
from typing import Final

from . import scram
from .known_users import KnownUsers
from .mechanism import LoginRefused
from .scram_messages import BadScram, ClientFinal, ClientFirst, ServerFinal, ServerFirst

_WRONG: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class ScramServer:
    """One login by SCRAM; `new_nonce` returns the server's half of the nonce."""

    refusal = ""  # told by an exception
    expires_ms: int | None = None

    def __init__(
        self,
        mechanism: scram.Mechanism,
        users: KnownUsers,
        *,
        secret: bytes,
        new_nonce: Callable[[], str],
    ) -> None:
        self._mechanism = mechanism
        self._users = users
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
        known = self._users.credentials.get(first.name)
        self._is_fake = known is None
        fake = self._users.fake(self._mechanism, self._secret, first.name)
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
