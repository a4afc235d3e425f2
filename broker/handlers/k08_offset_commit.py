"""OffsetCommit 0-9: store a group's offsets; answered once they are committed.

Kafka stores v0 commits in ZooKeeper; here all versions work the same.
"""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse

from ..core.groups.offsets_answers import refuse_commit, there_in
from ..core.groups.shard import Shard
from ..net.call import Call
from ..node import Node
from . import Answer


def handle(request: OffsetCommitRequest, call: Call, node: Node) -> Answer:
    """Let the group decide, unless none of the partitions exists."""
    exists = node.groups.exists

    def refused(code: ErrorCode) -> OffsetCommitResponse:
        return refuse_commit(request, code, exists)

    if not there_in(request, exists):
        return refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return node.groups.ask(Shard.commit_offsets, request.group_id, request, call, refused)
