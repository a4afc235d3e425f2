from odradek.protocol.errors import ErrorCode
from tests.broker.requests import offset_for_leader_epoch
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client
from tests.support.messages import batch_of


async def end_of(
    client: Client, epoch: int, *, current: int = -1, topic: str = "t"
) -> tuple[int, int, int]:
    request = offset_for_leader_epoch(topic, epoch, current_leader_epoch=current)
    result = (await client.ask(request, 4)).topics[0].partitions[0]
    return result.error_code, result.leader_epoch, result.end_offset


@on_broker(both=False)
async def test_where_epochs_end(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    assert await end_of(client, 0) == (0, 0, 0)
    await client.append("t", batch_of(b"a", b"b"))
    partition = broker.node.replicas.partitions["t", 0]
    partition.become(partition.state._replace(leader_epoch=3), 0)
    await client.append("t", batch_of(b"c"))
    assert await end_of(client, 0) == (0, 0, 2)
    assert await end_of(client, 2) == (0, 0, 2)
    assert await end_of(client, 3) == (0, 3, 3)
    assert await end_of(client, 4) == (0, -1, -1)
    assert await end_of(client, -1) == (0, -1, -1)
    assert await end_of(client, 0, current=3) == (0, 0, 2)
    assert await end_of(client, 0, current=2) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert await end_of(client, 0, current=4) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert await end_of(client, 0, topic="absent") == unknown
