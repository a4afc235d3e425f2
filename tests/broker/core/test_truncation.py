"""Where a follower cuts its log."""

from pathlib import Path

import pytest

from odradek.broker.core.truncation import truncation_offset
from tests.broker.batches import altered
from tests.storage.support import new_log
from tests.support.messages import batch_of


@pytest.mark.parametrize(
    ("epoch", "end_offset", "expected"),
    [
        (2, 9, 6),  # both know it, and the own part of it is the shorter one
        (2, 5, 5),
        (4, 7, 7),
        (4, 99, 10),  # the last one ends with the log
        (3, 8, 6),  # only the leader knows it: all that is later than 2 goes
        (1, 3, 2),  # earlier than all that is known: the log begins with other records
        (9, 3, 3),  # later than all: the leader's word has to do
        (9, 99, 10),
    ],
)
def test_the_cut(tmp_path: Path, epoch: int, end_offset: int, expected: int) -> None:
    """Epoch 2 holds offsets 2 to 5, epoch 4 holds 6 to 9."""
    log = new_log(tmp_path)
    for base_offset, leader_epoch in ((2, 2), (4, 2), (6, 4), (8, 4)):
        batch = altered(
            batch_of(b"a", b"b"), base_offset=base_offset, partition_leader_epoch=leader_epoch
        )
        log.append_as_follower(memoryview(batch), wall_ms=0)
    assert truncation_offset(log, epoch, end_offset) == expected
