"""`odradek groups`: list, describe, reset-offsets, delete, delete-offsets and explain."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

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
from .errors import CommandError
from .explain import explain
from .group_descriptions import (
    DEAD,
    GroupView,
    MemberView,
    committed_offsets,
    describe_group,
    existing_group,
)
from .group_offsets import Partition, by_topic
from .log_offsets import LATEST, log_offsets, topic_leaders
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
STATES_FIRST: Final = 4  # ListGroups: KIP-518
TYPES_FIRST: Final = 5  # KIP-848

Document = dict[str, Any]


@click.group()
def groups() -> None:
    """List, describe, explain, reset and delete consumer groups of any Kafka cluster."""


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
        found = [row for node in brokers.nodes() for row in _listed(brokers, node, request, first)]
    found.sort(key=lambda row: str(row["group"]))
    if quiet:
        for row in found:
            click.echo(row["group"])
    elif as_json:
        show_json(found)
    else:
        rows = [
            [*(cell or NOTHING for cell in list(row.values())[:-1]), _address(row["coordinator"])]
            for row in found
        ]
        show_table(("GROUP", "TYPE", "STATE", "PROTOCOL", "COORDINATOR"), rows)


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
            "coordinator": _coordinator(node),
        }
        for group in answer.groups
    ]


@groups.command("describe")
@click.argument("names", metavar="GROUP…", nargs=-1, required=True)
@click.option("--members", is_flag=True, help="The members and what they read.")
@click.option("--state", is_flag=True, help="Only state, assignor and coordinator.")
@json_option
@cluster_options
def describe(
    cluster: Cluster, names: tuple[str, ...], members: bool, state: bool, as_json: bool
) -> None:
    """Show how far groups have read, or their members."""
    if members and state:
        raise click.UsageError("--members or --state: one of them")
    view = "members" if members else "state" if state else "partitions"
    documents, missing = [], []
    with brokers_of(cluster) as brokers:
        for name in dict.fromkeys(names):
            group = describe_group(brokers, name)
            if group.state == DEAD:
                missing.append(name)
                continue
            document = _header(group)
            if view == "members":
                document["members"] = [_member(member) for member in group.members]
            elif view == "partitions":
                document["partitions"] = _partitions(brokers, group)
            documents.append(document)
    if as_json:
        show_json(documents)
    else:
        _show_documents(documents, view)
    if missing:
        raise CommandError(f"there is no group {', '.join(missing)} (GROUP_ID_NOT_FOUND)")


def _coordinator(node: BrokerNode) -> Document:
    return {"id": node.node_id, "address": f"{node.host}:{node.port}"}


def _address(coordinator: Document) -> str:
    return f"{coordinator['address']} ({coordinator['id']})"


def _header(group: GroupView) -> Document:
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "epoch": group.epoch,
        "member_count": len(group.members),
        "coordinator": _coordinator(group.coordinator),
    }


def _member(member: MemberView) -> Document:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "epoch": member.epoch,
        "assignment": by_topic(member.partitions),
        "target": None if member.target is None else by_topic(member.target),
    }


def _partitions(brokers: Brokers, group: GroupView) -> list[Document]:
    """What is read, and what was committed; a partition may have several readers for a moment."""
    committed = committed_offsets(brokers, group.group_id)
    readers = [(p, member) for member in group.members for p in member.partitions]
    wanted = {*committed, *(p for p, _ in readers)}
    leaders = topic_leaders(brokers, {p.topic for p in wanted})
    ends = log_offsets(brokers, leaders, wanted, LATEST)
    read: set[Partition] = {p for p, _ in readers}
    rows: list[tuple[Partition, MemberView | None]] = [*readers]
    rows += [(p, None) for p in committed if p not in read]
    rows.sort(key=lambda row: row[0])
    return [_position(p, committed.get(p), ends[p].offset, reader) for p, reader in rows]


def _position(
    partition: Partition, committed: int | None, end: int | None, reader: MemberView | None
) -> Document:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "committed": committed,
        "log_end": end,
        "lag": None if committed is None or end is None else max(0, end - committed),
        "member_id": reader and reader.member_id,
        "host": reader and reader.host,
        "client_id": reader and reader.client_id,
    }


def _show_documents(documents: Sequence[Document], view: str) -> None:
    if view == "state":
        columns = ("GROUP", "TYPE", "STATE", "ASSIGNOR", "EPOCH", "MEMBERS", "COORDINATOR")
        show_table(columns, [_state_row(document) for document in documents])
        return
    for index, document in enumerate(documents):
        if index:
            click.echo()
        count = document["member_count"]
        click.echo(
            f"{document['group']}  {document['type']}  {document['state']}"
            f"  {count} member{'' if count == 1 else 's'}"
        )
        if view == "members":
            _show_members(document["members"])
        else:
            _show_rows(document["partitions"])


def _state_row(document: Document) -> list[object]:
    return [
        document["group"],
        document["type"],
        document["state"],
        document["assignor"] or NOTHING,
        _or_nothing(document["epoch"]),
        document["member_count"],
        _address(document["coordinator"]),
    ]


def _show_members(members: Sequence[Document]) -> None:
    if not members:
        return
    columns = ["MEMBER", "INSTANCE", "HOST", "CLIENT", "EPOCH", "COUNT", "ASSIGNMENT"]
    moves = any(member["target"] not in (None, member["assignment"]) for member in members)
    show_table(
        [*columns, "TARGET"] if moves else columns,
        [_member_row(member, moves) for member in members],
    )


def _member_row(member: Document, moves: bool) -> list[object]:
    assignment: Mapping[str, Sequence[int]] = member["assignment"]
    target = [assignment_text(member["target"]) or NOTHING] if moves else []
    return [
        member["member_id"],
        _or_nothing(member["instance_id"]),
        member["host"],
        member["client_id"],
        _or_nothing(member["epoch"]),
        sum(map(len, assignment.values())),
        assignment_text(assignment) or NOTHING,
        *target,
    ]


def assignment_text(assignment: Mapping[str, Sequence[int]]) -> str:
    """As in `orders:0,1 refunds:0`."""
    return " ".join(f"{name}:{','.join(map(str, ps))}" for name, ps in assignment.items())


def _show_rows(rows: Sequence[Document]) -> None:
    if rows:
        columns = [name.replace("_", "-").upper() for name in rows[0]]
        show_table(columns, [[_or_nothing(cell) for cell in row.values()] for row in rows])


def _or_nothing(cell: object) -> object:
    return NOTHING if cell is None else cell


@groups.command("delete")
@click.argument("names", metavar="GROUP…", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="Do not mind a group that is not there.")
@cluster_options
def delete(cluster: Cluster, names: tuple[str, ...], if_exists: bool) -> None:
    """Delete groups without members, with all that they have committed."""
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
                refused.append(f"{name}: {error_name(code)}")
    if refused:
        raise CommandError(f"not deleted: {', '.join(refused)}")


@groups.command("delete-offsets")
@click.argument("name", metavar="GROUP")
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC[:P,P…]",
    multiple=True,
    required=True,
    callback=parse_topics,
    help="Whose offsets: all of a topic, or of some of its partitions; may be repeated.",
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
            raise CommandError(f"{name} has committed nothing for {', '.join(missing)}")
        if bare := sorted({t for t, _ in topics} - {p.topic for p in chosen}):
            raise CommandError(f"{name} has committed nothing for {', '.join(bare)}")
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
