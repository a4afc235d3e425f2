from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k75_describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client


async def page(
    client: Client, *topics: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=topic) for topic in topics],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    answer = await client.ask(request, 0)
    assert isinstance(answer, DescribeTopicPartitionsResponse)
    return answer


def shown(answer: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics]


async def pages(
    client: Client, *topics: str, limit: int
) -> list[list[tuple[str | None, list[int]]]]:
    """All pages, following the cursors."""
    found = [await page(client, *topics, limit=limit)]
    while (cursor := found[-1].next_cursor) is not None:
        assert len(found) < 20
        after = (cursor.topic_name, cursor.partition_index)
        found.append(await page(client, *topics, limit=limit, cursor=after))
    return list(map(shown, found))


@on_broker(both=False)
async def test_pages(broker: RunningBroker) -> None:
    client = await broker.client()
    for name, partitions in (("c", 1), ("a", 3), ("b", 2)):
        await client.create_topic(name, partitions)
    everything = [("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])]
    assert await pages(client, limit=2000) == [everything]
    assert await pages(client, limit=6) == [everything]
    assert await pages(client, limit=4) == [
        [("a", [0, 1, 2]), ("b", [0])],
        [("b", [1]), ("c", [0])],
    ]
    assert await pages(client, limit=3) == [[("a", [0, 1, 2])], [("b", [0, 1]), ("c", [0])]]
    assert len(await pages(client, limit=0)) == 6
    assert await pages(client, "c", "b", "c", limit=2) == [[("b", [0, 1])], [("c", [0])]]
    assert shown(await page(client, cursor=("b", 1))) == [("b", [1]), ("c", [0])]
    assert shown(await page(client, cursor=("bb", 5))) == [("c", [0])]
    assert shown(await page(client, cursor=("b", 99))) == [("b", []), ("c", [0])]


@on_broker({"max.request.partition.size.limit": "2"}, both=False)
async def test_the_broker_limits_a_page(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("a", 5)
    assert await pages(client, limit=2000) == [[("a", [0, 1])], [("a", [2, 3])], [("a", [4])]]


@on_broker(both=False)
async def test_a_partition(broker: RunningBroker) -> None:
    client = await broker.client()
    topic = await client.create_topic("a")
    (found,) = (await page(client, "a")).topics
    assert (found.topic_id, found.is_internal) == (topic.topic_id, False)
    assert found.topic_authorized_operations > 0
    (partition,) = found.partitions
    assert (partition.leader_id, partition.leader_epoch) == (0, 0)
    assert partition.replica_nodes == partition.isr_nodes == [0]
    assert partition.eligible_leader_replicas == partition.last_known_elr == []


@on_broker(both=False)
async def test_what_is_wrong(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("a")
    answer = await page(client, "a", "absent", "no topic")
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("a", 0),
        ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("no topic", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert all(topic.topic_authorized_operations > 0 for topic in answer.topics), "as in Kafka"
    answer = await page(client, "a", cursor=("a", -1))
    assert [t.error_code for t in answer.topics] == [ErrorCode.INVALID_REQUEST]
