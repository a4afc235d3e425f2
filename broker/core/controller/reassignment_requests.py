"""What /admin/reassign_partitions still asks for."""

from collections.abc import Callable

from ..partition_state import TopicPartition
from .context import Context
from .effects import KeepReassignmentRequests, Procedure


def drop_requests(
    context: Context, is_meant: Callable[[TopicPartition, tuple[int, ...]], bool]
) -> Procedure[None]:
    """Take requests from /admin/reassign_partitions, if there is such a node."""
    requests = context.reassignment_requests
    if requests:
        left = {key: replicas for key, replicas in requests.items() if not is_meant(key, replicas)}
        context.reassignment_requests = left
        yield KeepReassignmentRequests(left)
