import pytest

from odradek.broker.coordination import znodes
from odradek.broker.core.controller.status import PartitionStatus
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client
from tests.support.messages import batch_of, error_codes

OTHER = 7


async def elect(
    client: Client, asked: list[int] | None, *, kind: int = 0, timeout_ms: int = 10_000
) -> ElectLeadersResponse:
    topics = None if asked is None else [TopicPartitions(topic="t", partitions=asked)]
    request = ElectLeadersRequest(
        election_type=kind, topic_partitions=topics, timeout_ms=timeout_ms
    )
    answer = await client.ask(request, 2)
    assert isinstance(answer, ElectLeadersResponse)
    return answer


def codes(answer: ElectLeadersResponse) -> list[int]:
    return [c for t in answer.replica_election_results for c in error_codes(t.partition_result)]


async def led_by_another(broker: RunningBroker) -> None:
    """Let the controller believe that our partition 0 is led by a broker that does not live."""
    path = znodes.partition_state_path("t", 0)
    state = znodes.PartitionStateNode(OTHER, 3, (OTHER, broker.broker_id), 1)
    stat = await broker.session.set(path, state.encode())
    context = broker.node.controller.context
    context.states["t", 0] = context.states["t", 0]._replace(
        leader=OTHER,
        leader_epoch=3,
        isr=(OTHER, broker.broker_id),
        partition_epoch=stat.version,
    )
    context.partition_status["t", 0] = PartitionStatus.OFFLINE


@on_broker(both=False)
async def test_with_one_broker_there_is_nothing_to_elect(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    for kind in (0, 1):
        answer = await elect(client, [1, 0, 1, 5], kind=kind)
        unknown, needless = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.ELECTION_NOT_NEEDED
        assert codes(answer) == [needless, needless, unknown]
        assert answer.error_code == 0
        assert codes(await elect(client, None, kind=kind)) == []
    answer = await elect(client, [0], kind=2)
    assert [answer.error_code, *codes(answer)] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize("kind", [0, 1])
@on_broker(both=False)
async def test_a_leader_that_changes(broker: RunningBroker, kind: int) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"a"))
    await led_by_another(broker)
    assert codes(await elect(client, [0] if kind else None, kind=kind)) == [0]
    state = broker.node.replicas.partitions["t", 0].state
    assert (state.leader, state.leader_epoch) == (broker.broker_id, 4)
    # acks=all would wait for the other one, who is still in sync after a preferred election.
    assert await client.append("t", batch_of(b"b"), acks=1) == 1
    assert (await client.fetch("t", 1, leader_epoch=4)).error_code == 0


@on_broker(both=False)
async def test_news_that_come_too_late(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await led_by_another(broker)
    shown = broker.node.metadata.partition("t", 0)
    assert shown is not None
    broker.node.metadata.update_partitions([shown._replace(leader=OTHER)])
    monkeypatch.setattr(broker.node.metadata, "update_partitions", lambda states: None)
    answer = await elect(client, [0], timeout_ms=1)
    assert codes(answer) == [ErrorCode.REQUEST_TIMED_OUT]
