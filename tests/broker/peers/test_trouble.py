"""Trouble with a peer is said once, then now and then."""

from odradek.broker.peers.trouble import REMIND_MS, Trouble


def test_trouble_is_said_when_it_begins_and_when_it_ends() -> None:
    trouble = Trouble()
    assert not trouble.ends()
    assert trouble.begins(1000)
    assert not trouble.begins(1001)
    assert not trouble.begins(999 + REMIND_MS)
    assert trouble.begins(1000 + REMIND_MS)
    assert not trouble.begins(1001 + REMIND_MS)
    assert trouble.ends()
    assert not trouble.ends()
    assert trouble.begins(1002 + REMIND_MS)
