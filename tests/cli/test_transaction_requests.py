"""What is asked for transactions, of brokers whose answers are written down here."""

from collections.abc import Sequence
from typing import Any

import pytest

from odradek.cli.brokers import Brokers
from odradek.cli.errors import CommandError
from odradek.cli.find_hanging import without_coordinator
from odradek.cli.group_offsets import Partition
from odradek.cli.transaction_requests import (
    describe_producers,
    describe_transaction,
    list_transactions,
    open_transactions,
    refuse_undescribed,
    write_abort_marker,
)
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages import k03_metadata as k03
from odradek.protocol.messages import k27_write_txn_markers as k27
from odradek.protocol.messages import k61_describe_producers as k61
from odradek.protocol.messages import k65_describe_transactions as k65
from odradek.protocol.messages import k66_list_transactions as k66
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorResponse
from odradek.protocol.schema import Message

WHERE = Partition("orders", 0)
PRODUCER = k61.ProducerState(
    producer_id=7, producer_epoch=2, coordinator_epoch=3, current_txn_start_offset=41
)


class Answers(Brokers):
    """Answers each request of a kind with the next of its answers, the last again and again."""

    def __init__(self, *answers: Message) -> None:
        self.answers: dict[type[Message], list[Message]] = {}
        self.asked: list[Message] = []
        for answer in (metadata(), *answers):
            self.answers.setdefault(type(answer), []).append(answer)

    def ask(self, request: Message, response_type: Any, **_: Any) -> Any:
        self.asked.append(request)
        left = self.answers[response_type]
        return left.pop(0) if len(left) > 1 else left[0]


def metadata(leaders: Sequence[int] = (0,)) -> k03.MetadataResponse:
    """One broker, and __transaction_state with these leaders."""
    broker = k03.MetadataResponseBroker(node_id=0, host="h", port=1)
    partitions = [
        k03.MetadataResponsePartition(partition_index=index, leader_id=leader)
        for index, leader in enumerate(leaders)
    ]
    topic = k03.MetadataResponseTopic(name="__transaction_state", partitions=partitions)
    return k03.MetadataResponse(brokers=[broker], topics=[topic])


def producers(*states: k61.ProducerState) -> k61.DescribeProducersResponse:
    partition = k61.PartitionResponse(partition_index=0, active_producers=list(states))
    return k61.DescribeProducersResponse(
        topics=[k61.TopicResponse(name="orders", partitions=[partition])]
    )


def listed(*names: str, error_code: int = 0) -> k66.ListTransactionsResponse:
    states = [
        k66.TransactionState(transactional_id=n, producer_id=7, transaction_state="Ongoing")
        for n in names
    ]
    return k66.ListTransactionsResponse(error_code=error_code, transaction_states=states)


def described(*partitions: int, error_code: int = 0) -> k65.DescribeTransactionsResponse:
    state = k65.TransactionState(
        error_code=error_code,
        transactional_id="billing-1",
        producer_id=7,
        topics=[k65.TopicData(topic="orders", partitions=list(partitions))],
    )
    return k65.DescribeTransactionsResponse(transaction_states=[state])


def hanging(*answers: Message) -> list[int]:
    """The offsets at which hanging transactions begin, of one that is open in orders-0."""
    brokers = Answers(FindCoordinatorResponse(node_id=0), producers(PRODUCER), *answers)
    idle = open_transactions(describe_producers(brokers, {WHERE: 0}))
    return [t.start_offset for t in without_coordinator(brokers, {WHERE: 0}, idle)]


def test_what_hangs() -> None:
    assert hanging(listed()) == [41]
    assert hanging(listed("billing-1"), described()) == [41]
    assert hanging(listed("billing-1"), described(1)) == [41]
    not_found = described(error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    assert hanging(listed("billing-1"), not_found) == [41]


def test_what_is_under_way_does_not_hang() -> None:
    assert hanging(listed("billing-1"), described(1, 0)) == []


def test_what_has_just_ended_does_not_hang() -> None:
    ended = k61.ProducerState(producer_id=7, producer_epoch=2, coordinator_epoch=3)
    assert hanging(listed(), producers(ended)) == []


def test_nothing_hangs_while_nobody_knows_what_is_under_way() -> None:
    brokers = Answers(producers(PRODUCER), listed())
    idle = open_transactions(describe_producers(brokers, {WHERE: 0}))
    brokers.answers[k03.MetadataResponse] = [metadata([0, -1])]
    with pytest.raises(CommandError, match="__transaction_state-1 has no leader"):
        without_coordinator(brokers, {WHERE: 0}, idle)


def test_where_nothing_is_open_no_coordinator_is_asked() -> None:
    brokers = Answers()
    assert without_coordinator(brokers, {WHERE: 0}, []) == []
    assert not brokers.asked


def test_partitions_without_a_leader_are_named() -> None:
    found = describe_producers(Answers(producers(PRODUCER)), {WHERE: 0, Partition("orders", 1): -1})
    assert [t.start_offset for t in open_transactions(found)] == [41]
    with pytest.raises(CommandError, match=r"^not searched: orders-1 \(LEADER_NOT_AVAILABLE\)$"):
        refuse_undescribed(found, "searched")


@pytest.mark.slow
def test_coordinators_that_load_are_asked_again() -> None:
    loading = listed(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    (found,) = list_transactions(Answers(loading, listed("billing-1")))
    assert (found.transactional_id, found.coordinator.node_id) == ("billing-1", 0)
    moved = described(error_code=ErrorCode.NOT_COORDINATOR)
    brokers = Answers(FindCoordinatorResponse(node_id=0), moved, described())
    assert describe_transaction(brokers, "billing-1") is not None


def test_refusals() -> None:
    refused = listed(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(CommandError, match=r"broker 0: refused \(CLUSTER_AUTHORIZATION_FAILED\)"):
        list_transactions(Answers(refused))
    unknown = k66.ListTransactionsResponse(unknown_state_filters=["Empty"])
    with pytest.raises(CommandError, match="broker 0 knows no state Empty"):
        list_transactions(Answers(unknown))
    denied = described(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(CommandError, match="billing-1: refused"):
        describe_transaction(Answers(FindCoordinatorResponse(node_id=0), denied), "billing-1")


@pytest.mark.parametrize(("epoch", "sent"), [(-1, 0), (0, 0), (5, 5)])
def test_the_marker(epoch: int, sent: int) -> None:
    brokers = Answers(marked(ErrorCode.NONE))
    write_abort_marker(brokers, WHERE, 0, producer_id=7, producer_epoch=2, coordinator_epoch=epoch)
    (request,) = brokers.asked
    assert isinstance(request, k27.WriteTxnMarkersRequest)
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch) == (7, 2)
    assert (marker.transaction_result, marker.coordinator_epoch) == (False, sent)
    assert [(t.name, t.partition_indexes) for t in marker.topics] == [("orders", [0])]


@pytest.mark.parametrize("codes", [(), (ErrorCode.TRANSACTION_COORDINATOR_FENCED,)])
def test_a_marker_that_is_refused(codes: Sequence[int]) -> None:
    with pytest.raises(CommandError, match="orders-0: the transaction is not aborted"):
        write_abort_marker(
            Answers(marked(*codes)), WHERE, 0, producer_id=7, producer_epoch=2, coordinator_epoch=0
        )


def marked(*codes: int) -> k27.WriteTxnMarkersResponse:
    partitions = [
        k27.WritableTxnMarkerPartitionResult(partition_index=0, error_code=code) for code in codes
    ]
    topic = k27.WritableTxnMarkerTopicResult(name="orders", partitions=partitions)
    return k27.WriteTxnMarkersResponse(
        markers=[k27.WritableTxnMarkerResult(producer_id=7, topics=[topic])]
    )
