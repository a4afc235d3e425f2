"""Describes groups by the requests that any broker answers, as the admin API shows them."""

from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from odradek.broker.admin_api.views import classic_member, committed_offset, consumer_member
from odradek.broker.core.topic_names import GROUP_OFFSETS_TOPIC
from odradek.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.protocol.messages.k15_describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.protocol.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)

from .cluster_client import ClusterClient, check
from .door import NotFound
from .errors import BrokerFailed, hides
from .foreign_records import LATEST, offset_at
from .ready import Address

__tracebackhide__ = hides


def listed_groups(cluster: ClusterClient) -> Iterator[Any]:
    """The groups of all coordinators.  Raises: Passing while one loads them, BrokerFailed."""
    for node_id, address in cluster.addresses().items():
        yield from _groups_of(cluster, node_id, address, f"the groups of broker {node_id}")


def described_group(cluster: ClusterClient, group_id: str) -> Any:
    """A group with its members and offsets.

    Raises: NotFound; Passing while its coordinator changes or loads it; BrokerFailed.
    """
    if cluster.topic(GROUP_OFFSETS_TOPIC) is not None:
        node_id, address = cluster.coordinator(group_id)
        for found in _groups_of(cluster, node_id, address, f"group {group_id}"):
            if found["group_id"] == group_id:
                is_consumer = found["type"].lower() == "consumer"
                describe = _consumers if is_consumer else _classic
                state, members = describe(cluster, group_id)
                offsets = list(_offsets(cluster, group_id))
                return {**found, "state": state, "members": members, "offsets": offsets}
        _classic(cluster, group_id)  # tells whether the coordinator has loaded what it has
    raise NotFound(HTTPStatus.NOT_FOUND, f"there is no group {group_id!r}")


def _groups_of(cluster: ClusterClient, node_id: int, address: Address, about: str) -> Iterator[Any]:
    """The groups that one broker coordinates.  Raises: Passing, BrokerFailed."""
    told = cluster.ask(address, ListGroupsRequest(), ListGroupsResponse, at_most=5)
    check(told.error_code, None, about)
    for group in told.groups:
        yield {
            "group_id": group.group_id,
            "type": group.group_type or "classic",
            "state": group.group_state,
            "protocol_type": group.protocol_type,
            "coordinator": node_id,
        }


def _classic(cluster: ClusterClient, group_id: str) -> tuple[str, list[Any]]:
    """The state and the members of a group.  Raises: Passing, BrokerFailed."""
    _, address = cluster.coordinator(group_id)
    request = DescribeGroupsRequest(groups=[group_id])
    told = cluster.ask(address, request, DescribeGroupsResponse, at_most=5)
    (group,) = told.groups
    check(group.error_code, None, f"group {group_id}")
    return group.group_state, [classic_member(member) for member in group.members]


def _consumers(cluster: ClusterClient, group_id: str) -> tuple[str, list[Any]]:
    """The same of a group of the next generation (KIP-848)."""
    _, address = cluster.coordinator(group_id)
    request = ConsumerGroupDescribeRequest(group_ids=[group_id])
    told = cluster.ask(address, request, ConsumerGroupDescribeResponse, at_most=1)
    (group,) = told.groups
    check(group.error_code, group.error_message, f"group {group_id}")
    return group.group_state, [consumer_member(member) for member in group.members]


def _offsets(cluster: ClusterClient, group_id: str) -> Iterator[Any]:
    _, address = cluster.coordinator(group_id)
    request = OffsetFetchRequest(group_id=group_id, topics=None)
    told = cluster.ask(address, request, OffsetFetchResponse, at_most=7)
    check(told.error_code, None, f"group {group_id}")
    for topic in told.topics:
        for each in topic.partitions:
            if each.committed_offset >= 0:
                end = None
                with suppress(BrokerFailed):  # the topic is gone
                    end = offset_at(cluster, topic.name, each.partition_index, LATEST)
                yield committed_offset(topic.name, each, end)
