"""What a replica answers to LeaderAndIsr, by the epoch and the topic id that it has."""

import pytest

from odradek.broker.core.partition_state import PartitionState
from odradek.broker.core.role_rules import judge_role
from odradek.protocol.errors import ErrorCode
from odradek.protocol.primitives import ZERO_UUID

ID, OTHER_ID = bytes(15) + b"\1", bytes(15) + b"\2"
STATE = PartitionState("t", ID, 0, 2, 5, (1, 2), (1, 2), 0, 1)
TAKES_ROLE = None
UNCHANGED = ErrorCode.NONE
STALE = ErrorCode.STALE_CONTROLLER_EPOCH


@pytest.mark.parametrize(
    ("epoch", "asked_id", "topic_id", "code"),
    [
        (6, ID, ID, TAKES_ROLE),
        (6, ID, OTHER_ID, ErrorCode.INCONSISTENT_TOPIC_ID),
        (5, ID, None, UNCHANGED),  # only the id is new
        (5, ID, ID, STALE),
        (5, ZERO_UUID, ID, UNCHANGED),  # a controller that knows no ids
        (5, ZERO_UUID, None, STALE),
        (4, ID, None, STALE),
        (4, ZERO_UUID, ID, STALE),
    ],
)
def test_a_role_is_judged_by_epoch_and_id(
    epoch: int, asked_id: bytes, topic_id: bytes | None, code: ErrorCode | None
) -> None:
    asked = STATE._replace(leader_epoch=epoch, topic_id=asked_id)
    assert judge_role(asked, broker_id=1, current=STATE, topic_id=topic_id) == code


def test_a_role_without_an_epoch_is_news_to_nobody() -> None:
    asked = STATE._replace(leader_epoch=-1)
    assert judge_role(asked, broker_id=1, current=None, topic_id=None) == STALE
