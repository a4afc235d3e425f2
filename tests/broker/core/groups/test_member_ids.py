"""The ids that members are given."""

import pytest

from odradek.broker.core.groups.member_ids import MemberIds
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest

IDS = MemberIds(bytes)


def test_the_prefix_is_kept() -> None:
    assert IDS.classic("app") == "app-00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize("prefix", ["c" * 32_767, "ü" * 16_383, "\N{PILE OF POO}" * 8_191])
def test_every_message_can_carry_it(prefix: str) -> None:
    member_id = IDS.classic(prefix)
    assert len(member_id.encode()) > 32_760
    HeartbeatRequest(member_id=member_id).encode(0)
    assert IDS.classic(prefix).endswith("-00000000-0000-4000-8000-000000000000")


def test_of_a_consumer_it_is_a_random_uuid_in_kafkas_short_form() -> None:
    assert IDS.consumer() == "AAAAAAAAQACAAAAAAAAAAA"


def test_of_a_consumer_it_never_begins_like_an_option() -> None:
    drawn = iter((b"\xf8" + bytes(15), bytes(16)))
    assert MemberIds(lambda _size: next(drawn)).consumer() == "AAAAAAAAQACAAAAAAAAAAA"
    assert not list(drawn)
