"""Where a follower cuts its log when the leader reports divergence (KIP-101, KIP-279, KIP-595).

Source: getOffsetTruncationState of Kafka 3.9's AbstractFetcherThread.
"""

from odradek.storage.log.leader_epochs import UNDEFINED
from odradek.storage.log.log import Log


def truncation_offset(log: Log, epoch: int, end_offset: int) -> int:
    """The offset to cut the log to.

    The leader has `epoch` up to `end_offset`, and no later epoch that this log shares. If this log
    does not have the epoch, the cut removes only later epochs: the next answer names an earlier
    one.
    """
    log_end_offset = log.log_end_offset
    own_epoch, own_end_offset = log.end_offset_for_epoch(epoch)
    if own_epoch == UNDEFINED:
        return min(end_offset, log_end_offset)
    if own_epoch != epoch:
        return min(own_end_offset, log_end_offset)
    return min(own_end_offset, end_offset, log_end_offset)
