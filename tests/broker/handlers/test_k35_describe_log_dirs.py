from odradek.protocol.messages.k35_describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client
from tests.support.messages import batch_of


async def describe(client: Client, *asked: tuple[str, list[int]]) -> DescribeLogDirsResult:
    topics = [DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in asked]
    (result,) = (await client.ask(DescribeLogDirsRequest(topics=topics or None), 4)).results
    assert isinstance(result, DescribeLogDirsResult)
    return result


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }


@on_broker(both=False)
async def test_what_lies_there(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("a", 2)
    await client.create_topic("b")
    batch = batch_of(b"value")
    await client.append("a", batch, partition=1)
    result = await describe(client)
    assert result.error_code == 0
    assert result.log_dir == broker.data_dir
    assert 0 < result.usable_bytes <= result.total_bytes
    assert sizes(result) == {("a", 0): 0, ("a", 1): len(batch), ("b", 0): 0}
    only = await describe(client, ("a", [1, 7]), ("absent", [0]))
    assert sizes(only) == {("a", 1): len(batch)}
