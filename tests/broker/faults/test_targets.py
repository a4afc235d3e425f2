"""What messages are about, and messages without a part of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.faults.targets import (
    Target,
    base_of,
    path_of,
    targets_of,
    without,
)
from odradek.broker.handlers import APIS, Api
from odradek.protocol.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.protocol.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

ID = bytes(range(16))
NAMES = {ID: "by-id"}


def shown(api: Api, version: int) -> tuple[str, str]:
    """The paths of an API's request and response, as text."""
    return tuple(  # type: ignore[return-value]
        " ".join(
            f"{level.field}({','.join(level.names)}){'!' * bool(level.code)}"
            for level in path_of(message, version)
        )
        for message in (api.request, api.response)
    )


PRODUCED = "responses(name) partition_responses(index)!"
BY_PARTITION = "partitions(partition_index)!"
ADDED = "results_by_topic_v3_and_below(name) results_by_partition(partition_index)!"


@pytest.mark.parametrize(
    ("key", "version", "request_path", "response_path"),
    [
        (0, 9, "topic_data(name) partition_data(index)", PRODUCED),
        (1, 13, "topics(topic_id) partitions(partition)", f"responses(topic_id) {BY_PARTITION}"),
        (3, 12, "topics(topic_id,name)", f"topics(name,topic_id)! {BY_PARTITION}"),
        (
            9,
            8,
            "groups(group_id) topics(name) partition_indexes()",
            f"groups(group_id)! topics(name) {BY_PARTITION}",
        ),
        (10, 4, "coordinator_keys()", "coordinators(key)!"),
        (12, 4, "", ""),
        (13, 5, "", ""),
        (19, 7, "topics(name)", "topics(name,topic_id)!"),
        (20, 5, "topic_names()", "responses(name)!"),
        (24, 3, "v3_and_below_topics(name) partitions()", ADDED),
        (30, 3, "creations(resource_name)", ""),
        (42, 2, "groups_names()", "results(group_id)!"),
    ],
)
def test_paths(key: int, version: int, request_path: str, response_path: str) -> None:
    assert shown(APIS[key], version) == (request_path, response_path)


def found(message: Any, version: int) -> list[Target]:
    return targets_of(message, version, NAMES.get)


def test_partitions_of_topics() -> None:
    request = ProduceRequest(
        transactional_id="x",
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=index) for index in (1, 0)]
            )
        ],
    )
    assert found(request, 9) == [
        Target("t", 1, transactional_id="x"),
        Target("t", 0, transactional_id="x"),
    ]
    assert found(ProduceRequest(), 9) == [Target()]


def test_an_old_transactional_id() -> None:
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[3])]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x", v3_and_below_topics=topics
    )
    assert found(request, 3) == [Target("t", 3, transactional_id="x")]


def test_groups_and_their_topics() -> None:
    some = OffsetFetchRequestTopics(name="t", partition_indexes=[1])
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="g", topics=[some]),
            OffsetFetchRequestGroup(group_id="all", topics=None),
        ]
    )
    assert found(request, 8) == [Target("t", 1, group="g"), Target(group="all")]


def test_keys_are_groups_or_transactional_ids() -> None:
    request = FindCoordinatorRequest(key="k", key_type=0, coordinator_keys=["k"])
    for version in (1, 4):
        request.key_type = 0
        assert found(request, version) == [Target(group="k")]
        request.key_type = 1
        assert found(request, version) == [Target(transactional_id="k")]


def test_topics_by_id() -> None:
    states = [DeleteTopicState(name=None, topic_id=ID), DeleteTopicState(name="t")]
    assert found(DeleteTopicsRequest(topics=states), 6) == [
        Target("by-id", topic_id=ID),
        Target("t"),
    ]


def test_resources_that_are_no_topics() -> None:
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in ((2, "t"), (4, "0"))
    ]
    assert found(DescribeConfigsRequest(resources=resources), 4) == [Target("t"), Target()]


topics = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sets(st.integers(0, 3)), max_size=3)


@pytest.mark.slow
@given(topics, st.data())
def test_a_message_without_a_part_lacks_exactly_that(
    wanted: dict[str, set[int]], data: st.DataObject
) -> None:
    request = ProduceRequest(
        topic_data=[
            TopicProduceData(
                name=name, partition_data=[PartitionProduceData(index=each) for each in partitions]
            )
            for name, partitions in wanted.items()
        ]
    )
    before = repr(request)
    everything = found(request, 9)
    taken = set(data.draw(st.lists(st.sampled_from(everything))))
    left = [target for target in everything if target not in taken]
    path = path_of(ProduceRequest, 9)
    rest = without(request, path, base_of(request, 9), NAMES.get, taken)
    assert repr(request) == before, "the request itself is unchanged"
    if rest is None:
        assert not left or not wanted
    else:
        assert found(rest, 9) == left
