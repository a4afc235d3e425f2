"""What coordinators know of transactions, and what the leaders of partitions know of producers."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
)
from odradek.protocol.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from odradek.protocol.messages.k66_list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

from .brokers import TRANSACTION, BrokerNode, Brokers, refusal, until_settled
from .clients import error_name
from .errors import CommandError
from .group_offsets import Partition, by_topic
from .log_offsets import NO_LEADER

ANY_AGE_MS: Final = -1
AGE_FIRST: Final = 1  # ListTransactions: KIP-994
COORDINATOR_EPOCH_FIRST: Final = 0


class Listed(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    coordinator: BrokerNode
    producer_id: int
    state: str


class OpenTransaction(NamedTuple):
    """A transaction whose end is not in a partition's log yet."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """The epoch in the producer's last marker in the log; -1 without a marker."""
    start_offset: int
    last_timestamp: int

    @property
    def where(self) -> Partition:
        """The partition."""
        return Partition(self.topic, self.partition)


def list_transactions(
    brokers: Brokers,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    running_longer_than_ms: int | None = None,
) -> list[Listed]:
    """The transactional ids of all coordinators, by id.  Raises: CommandError."""
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=ANY_AGE_MS if running_longer_than_ms is None else running_longer_than_ms,
    )
    first = None if running_longer_than_ms is None else AGE_FIRST
    return sorted(
        listed for node in brokers.nodes() for listed in _listed(brokers, node, request, first)
    )


def _listed(
    brokers: Brokers, node: BrokerNode, request: ListTransactionsRequest, first: int | None
) -> list[Listed]:
    answer = until_settled(
        lambda: brokers.ask(request, ListTransactionsResponse, node_id=node.node_id, first=first),
        lambda answer: answer.error_code,
    )
    if answer.error_code:
        raise refusal(f"broker {node.node_id}", answer.error_code)
    if answer.unknown_state_filters:
        unknown = ", ".join(answer.unknown_state_filters)
        raise CommandError(f"broker {node.node_id} knows no state {unknown}")
    return [
        Listed(t.transactional_id, node, t.producer_id, t.transaction_state)
        for t in answer.transaction_states
    ]


def describe_transaction(brokers: Brokers, transactional_id: str) -> TransactionState | None:
    """What the coordinator knows of a transactional id, or None.  Raises: CommandError."""
    answer = brokers.ask_coordinator(
        transactional_id,
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        DescribeTransactionsResponse,
        lambda answer: answer.transaction_states[0].error_code,
        key_type=TRANSACTION,
    )
    (state,) = answer.transaction_states
    if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    if state.error_code:
        raise refusal(transactional_id, state.error_code)
    return state


def describe_producers(
    brokers: Brokers, broker_of: Mapping[Partition, int]
) -> dict[Partition, PartitionResponse]:
    """The producers of partitions, as a broker knows them for each.  Raises: CommandError.

    A response may have an error code; that of a partition without a leader has.
    """
    found = {
        p: PartitionResponse(partition_index=p.partition, error_code=ErrorCode.LEADER_NOT_AVAILABLE)
        for p, broker in broker_of.items()
        if broker == NO_LEADER
    }
    for node_id in sorted(set(broker_of.values()) - {NO_LEADER}):
        asked = by_topic([p for p, broker in broker_of.items() if broker == node_id])
        topics = [TopicRequest(name=t, partition_indexes=indexes) for t, indexes in asked.items()]
        request = DescribeProducersRequest(topics=topics)
        answer = brokers.ask(request, DescribeProducersResponse, node_id=node_id)
        for topic in answer.topics:
            found |= {Partition(topic.name, p.partition_index): p for p in topic.partitions}
    return dict(sorted(found.items()))


def refuse_undescribed(described: Mapping[Partition, PartitionResponse], done: str) -> None:
    """Raise CommandError if the producers of some partitions are not known, as in `not DONE: …`."""
    failed = [f"{p} ({error_name(d.error_code)})" for p, d in described.items() if d.error_code]
    if failed:
        raise CommandError(f"not {done}: {', '.join(failed)}")


def open_transactions(described: Mapping[Partition, PartitionResponse]) -> list[OpenTransaction]:
    """The open transactions of partitions, in their order."""
    return [
        OpenTransaction(
            *where,
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.current_txn_start_offset,
            producer.last_timestamp,
        )
        for where, partition in described.items()
        for producer in partition.active_producers
        if producer.current_txn_start_offset >= 0
    ]


def ongoing(brokers: Brokers, producer_ids: Collection[int]) -> set[tuple[int, Partition]]:
    """The producers and partitions of transactions in progress.  Raises: CommandError."""
    listed = list_transactions(brokers, producer_ids=sorted(producer_ids))
    described = [describe_transaction(brokers, t.transactional_id) for t in listed]
    return {
        (state.producer_id, Partition(topic.topic, index))
        for state in described
        if state is not None
        for topic in state.topics
        for index in topic.partitions
    }


def write_abort_marker(
    brokers: Brokers,
    where: Partition,
    leader: int,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """Have a leader end a producer's transaction in a partition.  Raises: CommandError."""
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=where.topic, partition_indexes=[where.partition])],
        # The log then refuses no later marker: none has a lower epoch.
        coordinator_epoch=max(coordinator_epoch, COORDINATOR_EPOCH_FIRST),
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    answer = brokers.ask(request, WriteTxnMarkersResponse, node_id=leader)
    codes = [p.error_code for m in answer.markers for t in m.topics for p in t.partitions]
    if codes != [ErrorCode.NONE]:
        code = codes[0] if codes else ErrorCode.UNKNOWN_SERVER_ERROR
        raise refusal(str(where), code, "the transaction is not aborted")
