"""The node /feature: whatever is in it, this broker writes nothing but that there is nothing."""

import re
from pathlib import Path

import pytest

from odradek.broker.coordination import znodes
from tests.broker.cluster.cluster_world import world
from tests.broker.coordination.asynchronous import asynchronous
from tests.support.awaiting import until

EMPTY = znodes.EMPTY_FEATURE
SOMEBODYS = b'{"version":2,"status":1,"features":{"x":{"max_version_level":1}}}'
ROOM = Path(__file__).parents[3] / "broker"


@pytest.mark.parametrize(
    ("before", "after", "version"),
    [
        (None, EMPTY, 0),
        (EMPTY, EMPTY, 0),
        (b'{"version":2,"features":{},"status":1}', b'{"version":2,"features":{},"status":1}', 0),
        (b'{"version":1,"features":{},"status":1}', EMPTY, 1),
        (b'{"version":2,"features":{},"status":0}', EMPTY, 1),
        (SOMEBODYS.replace(b'"status":1', b'"status":0'), EMPTY, 1),
        (SOMEBODYS, SOMEBODYS, 0),
        (b"?", b"?", 0),
    ],
)
@asynchronous
async def test_what_a_controller_makes_of_it(
    before: bytes | None, after: bytes, version: int
) -> None:
    async with world() as w:
        if before is not None:
            await w.session.create(znodes.FEATURE, before)
        for broker_id in (1, 2):
            await w.member(broker_id)
        await w.controller()
        data, stat = await w.session.get(znodes.FEATURE)
        assert (data, stat.version) == (after, version)
        for member in w.members:
            await until(lambda member=member: member.controller.feature_epoch == version)  # type: ignore[misc]
        await w.session.set(znodes.FEATURE, EMPTY)
        for member in w.members:
            await until(lambda member=member: member.controller.feature_epoch == version + 1)  # type: ignore[misc]


@pytest.mark.slow
def test_nothing_else_can_be_written() -> None:
    """In all of the broker, the node is written in one place, and with one value."""
    uses = [
        (path.name, line.strip())
        for path in ROOM.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"(Create|Set|create|set)\(.*FEATURE\b", line)
    ]
    assert sorted(uses) == [
        ("feature.py", "return Create(znodes.FEATURE, znodes.EMPTY_FEATURE)"),
        ("feature.py", "return Set(znodes.FEATURE, znodes.EMPTY_FEATURE)"),
    ]
