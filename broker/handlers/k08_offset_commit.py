"""OffsetCommit 0-9: keep positions of a group; answered once they are committed.

Kafka keeps what v0 commits in ZooKeeper; here all versions mean the same.
"""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k08_offset_commit import OffsetCommitRequest

from ..core.groups.offsets_answers import refuse_commit, there_in
from ..groups.coordinator import caller_of
from ..net.call import Call
from ..node import Node
from . import Answer


def handle(request: OffsetCommitRequest, call: Call, node: Node) -> Answer:
    """Let the group decide, unless there is none of the partitions."""
    exists = node.groups.exists
    if not there_in(request, exists):
        return refuse_commit(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, exists)
    caller = caller_of(call)
    return node.groups.ask(
        request.group_id,
        lambda shard, reply, moment: shard.commit_offsets(request, caller, reply, moment),
        lambda code: refuse_commit(request, code, exists),
    )
