"""The login of the fixture's own connections."""

from typing import Any, cast

import pytest

from odradek.client_configs import Access
from odradek.protocol.messages.k36_sasl_authenticate import SaslAuthenticateResponse
from odradek.testing.connection import Connection
from odradek.testing.login import log_in


class Refusing:
    """A connection to a broker that is newer than this list of errors."""

    def ask(self, request: object, version: int, response: type[Any]) -> Any:
        answer = response()
        if isinstance(answer, SaslAuthenticateResponse):
            answer.error_code = 999
        return answer


def test_an_error_that_is_not_known_is_a_number() -> None:
    access = Access(mechanism="PLAIN", username="alice", password="hunter2")
    with pytest.raises(PermissionError, match="the broker refuses the login: 999"):
        log_in(cast(Connection, Refusing()), access)
