"""The errors of the protocol, and Kafka's codes."""

import pytest

from odradek.protocol.errors import (
    BadChecksum,
    BadLength,
    ErrorCode,
    MalformedMessage,
    Refused,
    Truncated,
    UnsupportedVersion,
)
from odradek.protocol.messages.k48_describe_client_quotas import DescribeClientQuotasResponse


def test_codes_are_without_gap_and_named_as_kafkas() -> None:
    assert sorted(ErrorCode) == list(range(-1, 134))
    assert ErrorCode(-1).name == "UNKNOWN_SERVER_ERROR"
    assert ErrorCode(45).name == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert ErrorCode(133).name == "SHARE_SESSION_LIMIT_REACHED"


@pytest.mark.parametrize(
    ("code", "is_retriable"),
    [
        (ErrorCode.NONE, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False),
        (ErrorCode.CORRUPT_MESSAGE, True),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.BROKER_NOT_AVAILABLE, False),
        (ErrorCode.INVALID_RECORD, False),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, True),
    ],
)
def test_retriability_is_kafkas(code: ErrorCode, is_retriable: bool) -> None:
    assert code.retriable is is_retriable


def test_a_refusal_tells_its_code_and_reason() -> None:
    refused = Refused(ErrorCode.INVALID_CONFIG, "retention.ms is -5")
    assert (refused.code, refused.message) == (ErrorCode.INVALID_CONFIG, "retention.ms is -5")
    assert str(refused) == "INVALID_CONFIG: retention.ms is -5"
    assert str(Refused(ErrorCode.INVALID_CONFIG)) == "INVALID_CONFIG"


@pytest.mark.parametrize("character", ["x", "\N{PILE OF POO}"])
def test_a_reason_that_repeats_a_long_text_fits_into_an_answer(character: str) -> None:
    refused = Refused(ErrorCode.INVALID_REQUEST, f"there is no {character * 32_000} here")
    answer = DescribeClientQuotasResponse(error_message=refused.message)
    assert DescribeClientQuotasResponse.decode(answer.encode(1), 1)[0].error_message
    assert refused.message is not None
    assert refused.message.endswith(character + "…")


@pytest.mark.parametrize("kind", [Truncated, BadLength, BadChecksum, UnsupportedVersion])
def test_every_kind_of_wrong_bytes_is_caught_at_once(kind: type[MalformedMessage]) -> None:
    assert issubclass(kind, MalformedMessage)
