"""OffsetCommit 0-9: store a group's offsets; answered once they are committed.

Kafka stores v0 commits in ZooKeeper; here all versions work the same.
"""

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse

from ..core.acls.terms import Operation
from ..core.groups.offsets_answers import commit_answer, commits_in, refuse_commit, there_in
from ..core.groups.shard import Shard
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split
from . import Answer
from .partly import completed


def handle(request: OffsetCommitRequest, call: Call, node: Node) -> Answer:
    """Let the group decide, unless none of the partitions exists."""
    exists = node.groups.exists

    def refused(code: ErrorCode) -> OffsetCommitResponse:
        return refuse_commit(request, code, exists)

    if not there_in(request, exists):
        return refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return node.groups.ask(Shard.commit_offsets, request.group_id, request, call, refused)


def guarded(request: OffsetCommitRequest, call: Call, node: Node, rights: Rights) -> Answer:
    """Commit for the topics that the client may read."""
    request.topics, refused = split(
        request.topics, lambda topic: rights.topic(Operation.READ, topic.name)
    )
    answer = handle(request, call, node)
    if not refused:
        return answer
    others = refuse(
        OffsetCommitRequest(group_id=request.group_id, topics=refused),
        call.version,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )

    def complete(response: OffsetCommitResponse) -> None:
        response.topics += others.topics

    return completed(answer, complete)


def refuse(request: OffsetCommitRequest, version: int, code: ErrorCode) -> OffsetCommitResponse:
    """Refuse every partition, whether it exists or not."""
    asked = [key for key, _ in commits_in(request)]
    return commit_answer(asked, dict.fromkeys(asked, code))
