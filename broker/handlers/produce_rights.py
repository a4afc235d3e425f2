"""What a client needs for a Produce while there is an authorizer.

The batches tell whether the request is transactional, not the request's own field: otherwise a
producer could write transactions without the right to its transactional id (CVE-2018-17196).
"""

from collections.abc import Iterator

from odradek.protocol.errors import ErrorCode, MalformedMessage, Refused
from odradek.protocol.messages.k00_produce import ProduceRequest
from odradek.protocol.records import read_header

from ..core.acls.terms import Operation
from ..rights.rights import Rights


def refusal_of_all(request: ProduceRequest, rights: Rights) -> Refused | None:
    """Why no batch may be appended, if the client lacks the right to the transactional id."""
    if not any(_are_transactional(request)):
        return None
    name = request.transactional_id
    if name is not None and rights.transactional_id(Operation.WRITE, name):
        return None
    return Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def refusal_of_topic(topic: str, rights: Rights) -> Refused | None:
    """Why the batches of a topic may not be appended."""
    if rights.topic(Operation.WRITE, topic):
        return None
    return Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _are_transactional(request: ProduceRequest) -> Iterator[bool]:
    for topic in request.topic_data:
        for data in topic.partition_data:
            assert data.records is None or isinstance(data.records, memoryview)
            try:
                yield read_header(data.records or b"").is_transactional
            except MalformedMessage:  # it is refused later
                yield False
