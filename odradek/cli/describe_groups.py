"""`odradek groups describe`: committed offsets and lag of groups, and their members."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from .brokers import BrokerNode, Brokers, brokers_of
from .clients import Cluster, cluster_options
from .commands import command
from .completion import complete_groups
from .errors import CommandError
from .group_descriptions import DEAD, GroupView, MemberView, committed_offsets, describe_group
from .group_offsets import Partition, by_topic
from .log_offsets import log_offsets, topic_leaders
from .options import json_option
from .positions import LATEST
from .tables import NOTHING, show_json, show_rows, show_table

Document = dict[str, Any]


@command("describe")
@click.argument("names", metavar="GROUP…", nargs=-1, required=True, shell_complete=complete_groups)
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


def coordinator_document(node: BrokerNode) -> Document:
    """A coordinator in the JSON output."""
    return {"id": node.node_id, "address": f"{node.host}:{node.port}"}


def coordinator_text(coordinator: Document) -> str:
    """A coordinator in a table."""
    return f"{coordinator['address']} ({coordinator['id']})"


def assignment_text(assignment: Mapping[str, Sequence[int]]) -> str:
    """An assignment as text: `orders:0,1 refunds:0`."""
    return " ".join(f"{name}:{','.join(map(str, ps))}" for name, ps in assignment.items())


def _header(group: GroupView) -> Document:
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "epoch": group.epoch,
        "member_count": len(group.members),
        "coordinator": coordinator_document(group.coordinator),
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
    """All partitions read or committed; a partition may have several readers for a moment."""
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
        if documents:
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
        coordinator_text(document["coordinator"]),
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


def _show_rows(rows: Sequence[Document]) -> None:
    if rows:
        show_rows(list(rows[0]), rows)


def _or_nothing(cell: object) -> object:
    return NOTHING if cell is None else cell
