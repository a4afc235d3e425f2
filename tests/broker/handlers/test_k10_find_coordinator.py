import pytest

from odradek.broker.core.partitioner import partition_of
from odradek.broker.member.metadata import TopicInfo
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k03_metadata import MetadataRequest
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.broker.running import RunningBroker, on_broker


@on_broker({"offsets.topic.num.partitions": "3"}, both=False)
async def test_the_first_question_makes_the_topic(broker: RunningBroker) -> None:
    client = await broker.client()
    for version in range(4):
        answer = await client.ask(FindCoordinatorRequest(key="g"), version)
        assert (answer.error_code, answer.node_id) == (0, broker.broker_id)
        assert (answer.host, answer.port) == (broker.host, broker.port)
    for version in range(4, 7):
        request = FindCoordinatorRequest(coordinator_keys=["g", "h"])
        answer = await client.ask(request, version)
        assert [(c.key, c.error_code, c.node_id, c.port) for c in answer.coordinators] == [
            ("g", 0, broker.broker_id, broker.port),
            ("h", 0, broker.broker_id, broker.port),
        ]
    metadata = await client.ask(MetadataRequest(topics=None), 12)
    assert [(t.name, t.is_internal, len(t.partitions)) for t in metadata.topics] == [
        ("__consumer_offsets", True, 3)
    ]
    overrides = await broker.node.topics.overrides("__consumer_offsets")
    assert overrides == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


@on_broker({"offsets.topic.num.partitions": "3"}, both=False)
async def test_groups_are_not_found_by_a_part_of_the_partitions(broker: RunningBroker) -> None:
    """As a broker that starts may hear of them."""
    client, cache = await broker.client(), broker.node.metadata
    await client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    ((name, whole),) = cache.topics.items()
    cache.topics[name] = part = TopicInfo(name, whole.topic_id)
    part.put(whole.partitions[0])
    offsets = broker.node.groups.topic
    offsets.forget()
    offsets._metadata = cache
    assert offsets.partition_of("g") is None
    await offsets.count()
    assert offsets.partition_of("g") == partition_of("g", 3) != 0


@on_broker({"offsets.topic.replication.factor": "3"}, both=False)
async def test_too_few_brokers_for_the_topic(broker: RunningBroker) -> None:
    client = await broker.client()
    answer = await client.ask(FindCoordinatorRequest(key="g"), 3)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert answer.error_message


@pytest.mark.parametrize("key_type", [2, -1])
@on_broker(both=False)
async def test_share_groups_have_none(broker: RunningBroker, key_type: int) -> None:
    client = await broker.client()
    for version in (1, 3):
        answer = await client.ask(FindCoordinatorRequest(key="g", key_type=key_type), version)
        found = (answer.error_code, answer.node_id, answer.host, answer.port)
        assert found == (ErrorCode.INVALID_REQUEST, -1, "", -1)
        assert answer.error_message


@on_broker({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}, both=False)
async def test_who_has_no_right_is_told_so(broker: RunningBroker) -> None:
    """Clients show the text of the versions that have one."""
    client = await broker.client()
    for key_type, text in ((0, "Group authorization failed."), (1, "Transactional Id author")):
        request = FindCoordinatorRequest(key="g", key_type=key_type)
        answer = await client.ask(request, 2)
        assert answer.error_code in (
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        )
        assert answer.error_message is not None and answer.error_message.startswith(text)
