"""Which partition of `__consumer_offsets` a group belongs to.

That depends on the number of partitions, which UpdateMetadata does not tell a broker: it omits
partitions that never had a leader. So the number is read from the store, and only once, as in
Kafka: if partitions are added later, groups are not looked up elsewhere.
"""

import asyncio

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.primitives import ZERO_UUID

from ..coordination import znodes
from ..coordination.interface import CoordinationError, Session
from ..coordination.json_fields import MalformedZnode
from ..core.groups.partitioner import partition_of
from ..core.topic_names import GROUP_OFFSETS_TOPIC
from ..member.metadata import MetadataCache


class GroupPartitions:
    """The partitions of the topic, as far as the metadata has them."""

    def __init__(self, metadata: MetadataCache, session: Session) -> None:
        self._metadata = metadata
        self._session = session
        self._count = 0
        self._counted_id = ZERO_UUID
        self._one_by_one = asyncio.Lock()

    def of(self, group_id: str) -> int | None:
        """The partition of a group; None: call `learn` to get the number of partitions."""
        return partition_of(group_id, self._count) if self._is_known else None

    @property
    def _is_known(self) -> bool:
        info = self._metadata.topics.get(GROUP_OFFSETS_TOPIC)
        ids = {self._counted_id} if info is None else {self._counted_id, info.topic_id}
        return self._count > 0 and len(ids - {ZERO_UUID}) <= 1

    def forget(self) -> None:
        """Forget the number, because the topic was deleted."""
        self._count = 0

    async def learn(self) -> None:
        """Count them, unless that is done.  Raises: Refused (COORDINATOR_NOT_AVAILABLE)."""
        async with self._one_by_one:
            if self._is_known:
                return
            try:
                data, _ = await self._session.get(znodes.topic_path(GROUP_OFFSETS_TOPIC))
                assignment = znodes.TopicAssignment.decode(data)
            except (CoordinationError, MalformedZnode) as error:
                raise _unknown(str(error)) from None
            self._count = len(assignment.partitions)
            self._counted_id = assignment.topic_id or ZERO_UUID
            if not self._is_known:
                raise _unknown("it is another topic by now")


def _unknown(why: str) -> Refused:
    return Refused(
        ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{GROUP_OFFSETS_TOPIC} is not counted: {why}"
    )
