"""What clients say of themselves is told to people, but not at any length."""

import pytest

from odradek.broker.core.groups.classic_joining import REASON_SIZE_MAX
from odradek.protocol.messages.k13_leave_group import MemberIdentity

from .classic_running import Running

LONG = "r" * 30_000


def test_reasons_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    run = Running()
    a, _ = run.member("a")
    run.tick(6_000)
    run.join("a", a, reason=LONG)
    run.leave(MemberIdentity(member_id=a, reason=LONG))
    assert caplog.text.count("r" * REASON_SIZE_MAX) >= 2
    assert "r" * (REASON_SIZE_MAX + 1) not in caplog.text
