"""When the leader epochs of the checkpoint file are believed, and when the batches are."""

from pathlib import Path

from odradek.storage.log.checkpoint import LEADER_EPOCH, render_epochs
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from tests.broker.batches import altered

from ..support import append_values, batch_of, clean_hints, new_log, reload


def checkpoint(log: Log) -> Path:
    return Path(log.directory) / LEADER_EPOCH


def test_epochs_that_compaction_left_no_batch_of_stay_after_a_kill(tmp_path: Path) -> None:
    """The file lags behind the last epoch, and alone knows of the one in the gap."""
    log = new_log(tmp_path, LogConfig(compacts=True))
    for offset, epoch in ((0, 0), (2, 2), (3, 3)):
        batch = altered(bytes(batch_of([b"a"])), base_offset=offset, partition_leader_epoch=epoch)
        log.append_as_follower(memoryview(batch), wall_ms=0)
    log.abandon()
    checkpoint(log).write_bytes(render_epochs([(0, 0), (1, 1), (2, 2)]))
    again = reload(log)
    assert again.epochs.entries() == [(0, 0), (1, 1), (2, 2), (3, 3)]
    again.abandon()


def test_one_batch_is_enough_to_contradict_the_file(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append_values(log, b"a", leader_epoch=3)
    log.close()
    checkpoint(log).write_bytes(render_epochs([(5, 0)]))
    again = reload(log, clean_hints(log))
    assert again.epochs.entries() == [(3, 0)]
    assert checkpoint(log).read_bytes() == render_epochs([(3, 0)])
    again.abandon()
