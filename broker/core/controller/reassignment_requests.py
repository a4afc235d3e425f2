"""The pending requests in /admin/reassign_partitions."""

from collections.abc import Callable

from ..partition_state import TopicPartition
from .context import Context
from .effects import KeepReassignmentRequests, Procedure


def drop_requests(
    context: Context, is_meant: Callable[[TopicPartition, tuple[int, ...]], bool]
) -> Procedure[None]:
    """Remove the requests that `is_meant` selects from /admin/reassign_partitions, if it exists."""
    requests = context.reassignment_requests
    if requests:
        left = {key: replicas for key, replicas in requests.items() if not is_meant(key, replicas)}
        context.reassignment_requests = left
        yield KeepReassignmentRequests(left)
