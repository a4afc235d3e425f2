from collections.abc import Generator, Mapping
from typing import Any

import pytest

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.context import Context
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.broker.running import RunningBroker, on_broker

from .controllers import Active

NO_REASSIGNMENT = Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "nothing moves")


def topic(name: str, *partitions: tuple[int, list[int] | None]) -> ReassignableTopic:
    asked = [ReassignablePartition(partition_index=p, replicas=r) for p, r in partitions]
    return ReassignableTopic(name=name, partitions=asked)


@on_broker(both=False)
async def test_each_partition_is_answered(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[tuple[str, int], tuple[int, ...] | None] = {}

    def reassign(
        context: Context, asked: Mapping[tuple[str, int], tuple[int, ...] | None]
    ) -> Generator[Any, Any, dict[tuple[str, int], Refused | None]]:
        seen.update(asked)
        yield
        return {key: NO_REASSIGNMENT if wanted is None else None for key, wanted in asked.items()}

    monkeypatch.setattr(procedures, "reassign", reassign)
    monkeypatch.setattr(broker.node, "controller", Active(Context(0, 1)))
    client = await broker.client()
    request = AlterPartitionReassignmentsRequest(
        topics=[
            topic("t", (0, [2, 1]), (1, None), (2, [1]), (2, [2])),
            topic("u", (0, [])),
        ]
    )
    answer = await client.ask(request, 0)
    assert seen == {("t", 0): (2, 1), ("t", 1): None, ("u", 0): ()}
    assert (answer.error_code, answer.error_message) == (0, "")
    assert [
        (t.name, p.partition_index, p.error_code, p.error_message)
        for t in answer.responses
        for p in t.partitions
    ] == [
        ("t", 0, 0, None),
        ("t", 1, NO_REASSIGNMENT.code, "nothing moves"),
        ("t", 2, ErrorCode.INVALID_REQUEST, "the partition is named twice"),
        ("u", 0, 0, None),
    ]
