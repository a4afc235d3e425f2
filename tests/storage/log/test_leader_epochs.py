"""Leader epochs: assignment, truncation, the end-offset rule."""

from pathlib import Path

import pytest

from odradek.storage.errors import LogDirFailed
from odradek.storage.log.checkpoint import parse_epochs
from odradek.storage.log.leader_epochs import LeaderEpochs

from ..support import UnsyncedFileSystem


def epochs_of(tmp_path: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(UnsyncedFileSystem(), str(tmp_path), entries)


def test_assigning_drops_what_contradicts_and_writes_the_file(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path)
    for epoch, start_offset in ((1, 0), (3, 10), (4, 20), (5, 30)):
        epochs.assign(epoch, start_offset)
    epochs.assign(5, 35)  # known
    assert epochs.entries() == [(1, 0), (3, 10), (4, 20), (5, 30)]
    epochs.assign(6, 20)
    assert epochs.entries() == [(1, 0), (3, 10), (6, 20)]
    epochs.assign(6, 15)
    assert epochs.entries() == [(1, 0), (3, 10), (6, 15)]
    epochs.assign(-1, 99)
    assert parse_epochs((tmp_path / "leader-epoch-checkpoint").read_bytes()) == epochs.entries()
    assert epochs.latest == 6


def test_an_epoch_that_there_is_no_room_for_is_not_known(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path / "none", (1, 0), (3, 10))
    with pytest.raises(LogDirFailed):
        epochs.begin(4, 5)
    assert (epochs.entries(), epochs.latest) == ([(1, 0), (3, 10)], 3)
    (tmp_path / "none").mkdir()
    epochs.begin(4, 5)
    assert (epochs.entries(), epochs.latest) == ([(1, 0), (4, 5)], 4)


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, (-1, -1)),
        (0, (0, 5)),  # below the first: itself, and where the first begins
        (1, (1, 5)),
        (2, (2, 10)),
        (3, (2, 10)),  # no such epoch: the one below
        (4, (4, 99)),  # the latest ends with the log
        (5, (-1, -1)),  # above all
    ],
)
def test_the_end_offset_of_an_epoch(tmp_path: Path, epoch: int, expected: tuple[int, int]) -> None:
    epochs = epochs_of(tmp_path, (2, 5), (4, 10))
    assert epochs.end_offset(epoch, 99) == expected


def test_without_epochs_every_end_is_undefined(tmp_path: Path) -> None:
    assert epochs_of(tmp_path).end_offset(0, 99) == (-1, -1)


def test_the_epoch_of_an_offset(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (2, 5), (4, 10))
    assert [epochs.epoch_of(offset) for offset in (4, 5, 9, 10, 11)] == [-1, 2, 2, 4, 4]


def test_truncation_at_both_ends(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (1, 0), (2, 10), (3, 20))
    epochs.truncate_end(21)
    assert epochs.latest == 3
    epochs.truncate_end(20)
    assert epochs.entries() == [(1, 0), (2, 10)]
    epochs.truncate_start(0)
    assert epochs.entries() == [(1, 0), (2, 10)]
    epochs.truncate_start(5)
    assert epochs.entries() == [(1, 5), (2, 10)]
    epochs.truncate_start(10)
    assert epochs.entries() == [(2, 10)]
    epochs.truncate_start(15)
    assert epochs.entries() == [(2, 15)]
    epochs.truncate_end(0)
    assert (epochs.entries(), epochs.latest) == ([], -1)
