"""Logins at Apache Kafka 3.9.2 and at Odradek, compared answer by answer.

What may differ stands in `allowed_sasl.py`, with the reason; docs/differences.md says it to users.
"""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.wire.allowed_sasl import ALLOWED
from tests.wire.comparing import NAME, SIDES, Pair, Suite, compare, started_pair
from tests.wire.conversations_sasl import CONVERSATIONS, WAITING
from tests.wire.sasl_talk import SETTINGS, SaslTalk, make_sasl_server

SASL: Final = Suite(
    "sasl",
    "kafka-3.9",
    SaslTalk,
    SETTINGS,
    ALLOWED,
    waiting=WAITING,
    make=make_sasl_server,
)
HELD: Final = ((SASL, CONVERSATIONS),)


@pytest.fixture(scope="module", params=SIDES)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    yield from started_pair(SASL, request)


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=NAME)
def test_logins_are_kafkas(
    conversation: Callable[[SaslTalk], None], pair: Pair, request: pytest.FixtureRequest
) -> None:
    compare(conversation, pair, request)
