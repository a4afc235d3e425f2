"""Logins with tokens at Apache Kafka 3.9.2 and at Odradek, compared answer by answer.

What may differ stands in `allowed_oauthbearer.py`, with the reason; docs/differences.md says it to
users.
"""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.wire.allowed_oauthbearer import ALLOWED
from tests.wire.comparing import NAME, SIDES, Pair, Suite, compare, started_pair
from tests.wire.conversations_oauthbearer import CONVERSATIONS
from tests.wire.oauthbearer_talk import SETTINGS, OAuthBearerTalk, make_oauthbearer_server

OAUTHBEARER: Final = Suite(
    "oauthbearer",
    "kafka-3.9",
    OAuthBearerTalk,
    SETTINGS,
    ALLOWED,
    make=make_oauthbearer_server,
)
HELD: Final = ((OAUTHBEARER, CONVERSATIONS),)


@pytest.fixture(scope="module", params=SIDES)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    yield from started_pair(OAUTHBEARER, request)


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=NAME)
def test_logins_with_tokens_are_kafkas(
    conversation: Callable[[OAuthBearerTalk], None], pair: Pair, request: pytest.FixtureRequest
) -> None:
    compare(conversation, pair, request)
