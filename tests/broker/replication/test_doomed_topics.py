"""Topics that are to be deleted, or have been: who may still fetch, and what."""

from odradek.broker.core.fetch_session import PartitionFetch
from odradek.protocol.errors import ErrorCode
from tests.support.awaiting import until
from tests.support.messages import fetch_request

from .cluster import KEY, TOPIC, TOPIC_ID, Cluster, on_cluster, produce, state_of


@on_cluster()
async def test_a_new_follower_joins_all_the_same(cluster: Cluster) -> None:
    await cluster[1].take(state_of(1, 0, [1], [1, 2]))
    await produce(cluster, 1, b"a", b"b")
    for number in (1, 2):
        cluster[number].metadata.forget_topic(TOPIC)
    await cluster[2].take(state_of(1, 0, [1], [1, 2]))
    cluster[1].metadata.forget_topic(TOPIC)
    await until(lambda: cluster[1].partition().state.isr == (1, 2))
    await cluster.until_equal()


@on_cluster()
async def test_what_is_not_served_any_more_is_not_found(cluster: Cluster) -> None:
    broker = cluster[1]
    await broker.take(state_of(1, 0, [1], [1, 2]))
    broker.metadata.forget_topic(TOPIC)
    fetch = PartitionFetch((TOPIC_ID, 0), 0, 1000)
    assert broker.node.find_by_id(fetch) is broker.partition()
    broker.replicas.stop_serving([KEY])
    client = await broker.client()
    answer = await client.ask(fetch_request(TOPIC_ID), 13)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert not broker.replicas.by_id


@on_cluster()
async def test_records_of_an_earlier_topic_are_not_those_of_a_later_one(cluster: Cluster) -> None:
    """A broker that was away hears of the later one, and still has the earlier one."""
    broker = cluster[1]
    await broker.take(state_of(1, 0, [1], [1, 2]))
    await produce(cluster, 1, b"earlier")
    later = bytes(reversed(TOPIC_ID))
    broker.metadata.update_partitions([state_of(1, 0, [1], [1, 2])._replace(topic_id=later)])
    client = await broker.client()
    data = {
        topic_id: (await client.ask(fetch_request(topic_id), 13)).responses[0].partitions[0]
        for topic_id in (TOPIC_ID, later)
    }
    assert data[TOPIC_ID].error_code == ErrorCode.NONE
    assert data[later].error_code == ErrorCode.INCONSISTENT_TOPIC_ID
    assert not data[later].records
