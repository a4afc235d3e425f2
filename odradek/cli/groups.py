"""`odradek groups`: the commands list, describe, reset-offsets, delete, delete-offsets, explain."""

from collections.abc import Mapping, Sequence
from typing import Final

import click

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

from .brokers import BrokerNode, Brokers, brokers_of, refusal
from .clients import Cluster, cluster_options, error_name
from .commands import group
from .completion import complete_groups
from .describe_groups import Document, coordinator_document, coordinator_text, describe
from .errors import CommandError
from .explain import explain
from .group_descriptions import committed_offsets, existing_group
from .group_offsets import Partition, by_topic
from .options import json_option
from .reset_offsets import parse_topics, reset_offsets
from .tables import NOTHING, show_json, show_table

STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Assigning",
    "Reconciling",
    "Empty",
    "Dead",
)
TYPES: Final = ("classic", "consumer", "share", "streams")
_WHY_NOT_DELETED: Final[Mapping[int, str]] = {
    ErrorCode.NON_EMPTY_GROUP: "has members",
    ErrorCode.GROUP_ID_NOT_FOUND: "does not exist",
}
_NONE: Final = ": nothing was deleted"
STATES_FIRST: Final = 4  # ListGroups: KIP-518
TYPES_FIRST: Final = 5  # KIP-848


@group()
def groups() -> None:
    """List, describe, explain, reset and delete consumer groups of any Kafka cluster."""


groups.add_command(describe)
groups.add_command(reset_offsets)
groups.add_command(explain)


@groups.command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Only groups in this state; may be repeated.",
)
@click.option(
    "--type",
    "types",
    type=click.Choice(TYPES, case_sensitive=False),
    multiple=True,
    help="Only groups of this kind; may be repeated.",
)
@click.option("-q", "--quiet", is_flag=True, help="Ids only, one a line.")
@json_option
@cluster_options
def list_groups(
    cluster: Cluster, states: tuple[str, ...], types: tuple[str, ...], quiet: bool, as_json: bool
) -> None:
    """List the groups of all brokers."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    first = TYPES_FIRST if types else STATES_FIRST if states else 0
    with brokers_of(cluster) as brokers:
        found = [
            document
            for node in brokers.nodes()
            for document in _listed(brokers, node, request, first)
        ]
    found.sort(key=lambda document: str(document["group"]))
    if quiet:
        for document in found:
            click.echo(document["group"])
    elif as_json:
        show_json(found)
    else:
        columns = ("GROUP", "TYPE", "STATE", "PROTOCOL", "COORDINATOR")
        show_table(columns, [_row(document) for document in found])


def _listed(
    brokers: Brokers, node: BrokerNode, request: ListGroupsRequest, first: int
) -> list[Document]:
    answer = brokers.ask(request, ListGroupsResponse, node_id=node.node_id, first=first)
    if answer.error_code:
        raise refusal(f"broker {node.node_id}", answer.error_code)
    return [
        {
            "group": group.group_id,
            "type": group.group_type,
            "state": group.group_state,
            "protocol": group.protocol_type,
            "coordinator": coordinator_document(node),
        }
        for group in answer.groups
    ]


def _row(document: Document) -> list[str]:
    *texts, coordinator = document.values()
    return [*(text or NOTHING for text in texts), coordinator_text(coordinator)]


@groups.command("delete")
@click.argument("names", metavar="GROUP…", nargs=-1, required=True, shell_complete=complete_groups)
@click.option("--if-exists", is_flag=True, help="Accept groups that do not exist.")
@cluster_options
def delete(cluster: Cluster, names: tuple[str, ...], if_exists: bool) -> None:
    """Delete groups without members, and all their committed offsets."""
    refused = []
    with brokers_of(cluster) as brokers:
        for name in dict.fromkeys(names):
            answer = brokers.ask_coordinator(
                name,
                DeleteGroupsRequest(groups_names=[name]),
                DeleteGroupsResponse,
                lambda answer: answer.results[0].error_code,
            )
            code = answer.results[0].error_code
            if code == ErrorCode.NONE:
                click.echo(f"deleted {name}", err=True)
            elif not (if_exists and code == ErrorCode.GROUP_ID_NOT_FOUND):
                reason = _WHY_NOT_DELETED.get(code, "refused")
                refused.append(f"{name} {reason} ({error_name(code)})")
    if refused:
        raise CommandError(f"not deleted: {', '.join(refused)}")


@groups.command("delete-offsets")
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC[:P,P…]",
    multiple=True,
    required=True,
    callback=parse_topics,
    help="A topic, or some of its partitions; may be repeated.",
)
@cluster_options
def delete_offsets(
    cluster: Cluster, name: str, topics: Sequence[tuple[str, list[int] | None]]
) -> None:
    """Delete committed offsets of topics that no member of the group is subscribed to."""
    with brokers_of(cluster) as brokers:
        existing_group(brokers, name)
        committed = committed_offsets(brokers, name)
        chosen = {
            Partition(topic, index)
            for topic, indexes in topics
            for index in (
                [p.partition for p in committed if p.topic == topic] if indexes is None else indexes
            )
        }
        if missing := sorted(str(p) for p in chosen - committed.keys()):
            raise CommandError(f"{name} has committed nothing for {', '.join(missing)}{_NONE}")
        if bare := sorted({t for t, _ in topics} - {p.topic for p in chosen}):
            raise CommandError(f"{name} has committed nothing for {', '.join(bare)}{_NONE}")
        _delete_offsets(brokers, name, sorted(chosen))


def _delete_offsets(brokers: Brokers, name: str, partitions: Sequence[Partition]) -> None:
    request = OffsetDeleteRequest(
        group_id=name,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
            )
            for topic, indexes in by_topic(partitions).items()
        ],
    )
    answer = brokers.ask_coordinator(
        name, request, OffsetDeleteResponse, lambda answer: answer.error_code
    )
    if answer.error_code:
        raise refusal(name, answer.error_code)
    refused = []
    for topic in answer.topics:
        for result in topic.partitions:
            partition = Partition(topic.name, result.partition_index)
            if result.error_code:
                refused.append(f"{partition}: {error_name(result.error_code)}")
            else:
                click.echo(f"deleted {partition}", err=True)
    if refused:
        raise CommandError(f"not deleted: {', '.join(refused)}")
