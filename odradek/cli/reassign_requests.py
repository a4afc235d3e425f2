"""The requests that `odradek reassign` sends to the controller."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import click

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

from .brokers import Brokers, refusal
from .clients import error_name
from .cluster_view import TopicPartition
from .errors import CommandError

TIMEOUT_MS: Final = 60_000


class Moving(NamedTuple):
    """A partition whose replicas are being moved; the target replicas come first."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that it will have."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


def ongoing(brokers: Brokers, controller: int) -> dict[TopicPartition, Moving]:
    """All ongoing reassignments.  Raises: CommandError."""
    request = ListPartitionReassignmentsRequest(topics=None, timeout_ms=TIMEOUT_MS)
    answer = brokers.ask(request, ListPartitionReassignmentsResponse, node_id=controller)
    if answer.error_code:
        raise refusal("reassignments", answer.error_code, answer.error_message)
    found = {
        (topic.name, p.partition_index): Moving(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in answer.topics
        for p in topic.partitions
    }
    return dict(sorted(found.items()))


def alter(
    brokers: Brokers,
    controller: int,
    wanted: Mapping[TopicPartition, Sequence[int] | None],
    done: str,
) -> None:
    """Start reassignments, or cancel them (None), and report each.  Raises: CommandError.

    `done` is what the report says, such as "cancelled".
    """
    topics: dict[str, ReassignableTopic] = {}
    for (name, partition), replicas in wanted.items():
        topic = topics.setdefault(name, ReassignableTopic(name=name))
        topic.partitions.append(
            ReassignablePartition(
                partition_index=partition, replicas=None if replicas is None else list(replicas)
            )
        )
    request = AlterPartitionReassignmentsRequest(
        topics=list(topics.values()), timeout_ms=TIMEOUT_MS
    )
    answer = brokers.ask(request, AlterPartitionReassignmentsResponse, node_id=controller)
    if answer.error_code:
        raise refusal("reassignment", answer.error_code, answer.error_message)
    refused = 0
    for response in answer.responses:
        for result in response.partitions:
            name = f"{response.name}-{result.partition_index}"
            if result.error_code == ErrorCode.NONE:
                click.echo(f"{done} {name}", err=True)
            else:
                refused += 1
                message = result.error_message or "refused"
                click.echo(f"{name}: {message} ({error_name(result.error_code)})", err=True)
    if refused:
        raise CommandError(f"{refused} of {len(wanted)} partitions were refused")
