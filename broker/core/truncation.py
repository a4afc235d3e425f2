"""Where a follower cuts its log when the leader says that the two part (KIP-101, KIP-279, KIP-595).

Source: getOffsetTruncationState of Kafka 3.9's AbstractFetcherThread.
"""

from odradek.storage.log.leader_epochs import UNDEFINED
from odradek.storage.log.log import Log


def truncation_offset(log: Log, epoch: int, end_offset: int) -> int:
    """Cut the log to this end; the leader has `epoch` up to `end_offset`, and none after it that
    this log shares.

    If the epoch is unknown here the cut only takes away what is later than it: the next answer
    names an earlier one.
    """
    log_end_offset = log.log_end_offset
    own_epoch, own_end_offset = log.end_offset_for_epoch(epoch)
    if own_epoch == UNDEFINED:
        return min(end_offset, log_end_offset)
    if own_epoch != epoch:
        return min(own_end_offset, log_end_offset)
    return min(own_end_offset, end_offset, log_end_offset)
