"""What a broker tells of all committed offsets of groups."""

from collections.abc import Sequence

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from tests.support import awaiting
from tests.support.client import Client

UNSTABLE = "unstable"

Told = dict[str, dict[str, dict[str, int | str]]]
"""The offset of each partition, or UNSTABLE, by group: with require_stable, and without."""


async def told(client: Client, groups: Sequence[str]) -> Told:
    """Ask for all offsets, once they are loaded."""

    async def is_loaded() -> bool:
        answer = await _asked(client, groups, require_stable=False)
        return not any(group.error_code for group in answer.groups)

    await awaiting.until(is_loaded)
    return {
        "stable": _offsets(await _asked(client, groups, require_stable=True)),
        "any": _offsets(await _asked(client, groups, require_stable=False)),
    }


async def _asked(
    client: Client, groups: Sequence[str], *, require_stable: bool
) -> OffsetFetchResponse:
    asked = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    request = OffsetFetchRequest(groups=asked, require_stable=require_stable)
    answer: OffsetFetchResponse = await client.ask(request, 8)
    return answer


def _offsets(answer: OffsetFetchResponse) -> dict[str, dict[str, int | str]]:
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    return {
        group.group_id: {
            str(p.partition_index): UNSTABLE if p.error_code == unstable else p.committed_offset
            for topic in group.topics
            for p in sorted(topic.partitions, key=lambda each: each.partition_index)
        }
        for group in answer.groups
    }
