"""OAUTHBEARER, for a server: a token, and if it is not valid, an error and the client's answer.

As in Kafka, extensions are accepted and have no effect, and a client may show another token after
the error.
"""

from collections.abc import Callable

from ..tokens.token import InvalidToken, Validate
from .mechanism import LoginRefused
from .oauthbearer import ABORT, BadMessage, ClientFirst, error_text


class OAuthBearerServer:
    """One login by OAUTHBEARER."""

    def __init__(self, validate: Validate, wall_ms: Callable[[], int]) -> None:
        """`wall_ms` is the wall clock."""
        self._validate = validate
        self._wall_ms = wall_ms
        self._shown = ""
        self.refusal = ""
        self.is_complete = False
        self.user = ""
        self.expires_ms: int | None = None

    def step(self, token: bytes) -> bytes:
        """Take a token, or the client's answer to an error.  Raises: LoginRefused."""
        if self.refusal and token == ABORT:
            raise LoginRefused(self.refusal, self._shown)
        self.refusal = ""
        try:
            first = ClientFirst.parse(token)
            valid = self._validate(first.token, self._wall_ms())
        except BadMessage as error:
            raise LoginRefused(str(error)) from None
        except InvalidToken as invalid:
            self.refusal = f"the token is not valid: {invalid.reason}"
            self._shown = error_text(invalid.scope)
            return self._shown.encode()
        self.user = valid.user
        if first.authzid not in ("", valid.user):
            text = (
                f"Authentication failed: Client requested an authorization id ({first.authzid}) "
                f"that is different from the token's principal name ({valid.user})"
            )
            raise LoginRefused("the authorization id is not the token's user", text)
        self.expires_ms = valid.expires_ms
        self.is_complete = True
        return b""
