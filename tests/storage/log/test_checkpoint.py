"""What the checkpoint files may say."""

import pytest

from odradek.storage.log.checkpoint import OFFSET_MAX, parse_epochs, parse_offsets


def test_offsets_up_to_the_largest() -> None:
    assert parse_offsets(b"0\n1\nt 0 %d\n" % OFFSET_MAX) == {("t", 0): OFFSET_MAX}
    for offset in (-1, OFFSET_MAX + 1):
        with pytest.raises(ValueError, match="no offset"):
            parse_offsets(b"0\n1\nt 0 %d\n" % offset)


@pytest.mark.parametrize("second", [b"3 6", b"2 6", b"4 5", b"4 4"])
def test_epochs_and_their_offsets_rise(second: bytes) -> None:
    with pytest.raises(ValueError, match="does not rise"):
        parse_epochs(b"0\n2\n3 5\n%s\n" % second)
