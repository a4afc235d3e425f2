"""Asks coordinators whether partitions were added to a transaction, before a batch opens it there.

Without that, a batch that arrives after the end of its transaction would open another one, which
nobody ends (KIP-890). This broker's own coordinator is asked by a direct call. Questions for
another broker go out together: one AddPartitionsToTxn is in flight for each broker.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused, error_code
from odradek.protocol.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

from ..core.effects import Producer
from ..core.partition_state import TopicPartition, by_topic
from ..peers.peer import PeerFailed
from ..peers.peer_connections import PeerConnections
from ..tasks import TaskSupervisor

if TYPE_CHECKING:
    from ..local_broker import LocalBroker
    from ..peers.addresses import Peers
    from .coordinator import TransactionCoordinator

_LATER: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
"""The answer is not known now. Producers retry NOT_ENOUGH_REPLICAS, and know no other such code."""
QUESTIONS_MAX: Final = 1_000
"""Per request: with transactional ids of 32 KiB it stays below `socket.request.max.bytes`."""


class Question(NamedTuple):
    """Whether a partition is in a producer's open transaction."""

    transactional_id: str
    producer: Producer
    partition: TopicPartition


class NotVerified(Refused):
    """The coordinator has not confirmed that the partition is in the transaction.

    `code` is for Produce; `answer` is the coordinator's own.
    """

    def __init__(self, code: ErrorCode, answer: ErrorCode, message: str) -> None:
        super().__init__(code, message)
        self.answer = answer


Waiting = tuple[Question, "asyncio.Future[ErrorCode]"]


class Verifier:
    """The questions of one broker."""

    def __init__(
        self,
        local: "LocalBroker",
        tasks: TaskSupervisor,
        peers: "Peers",
        transactions: "TransactionCoordinator",
    ) -> None:
        self._local = local
        self._tasks = tasks
        self._version = peers.versions.add_partitions_to_txn
        self._connections = PeerConnections(
            peers, local.broker_id, timeout_ms=local.config.request_timeout_ms
        )
        self._transactions = transactions
        self._queues: dict[int, list[Waiting]] = {}
        """The questions for each broker that a task is asking."""

    def ask(self, question: Question) -> "ErrorCode | asyncio.Future[ErrorCode]":
        """NONE if the partition is in the transaction, or why not; at once, or later.

        Pass the code to `refusal`.
        """
        topic, transactional_id = self._transactions.topic, question.transactional_id
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        number = topic.partition_of(transactional_id)
        state = None if number is None else self._local.metadata.partition(topic.name, number)
        if state is None:
            self._tasks.spawn(self._count(), "count transactions")
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if state.leader == self._local.broker_id:
            return self._ask_here(question)
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        queue = self._queues.get(state.leader)
        if queue is None:
            queue = self._queues[state.leader] = []
            self._tasks.spawn(self._ask_all(state.leader, queue), f"verify at {state.leader}")
        queue.append((question, answer))
        return answer

    def close(self) -> None:
        """Ask nothing more."""
        self._queues.clear()
        self._connections.close()

    async def _count(self) -> None:
        with contextlib.suppress(Refused):  # the producer asks again
            await self._transactions.topic.count()

    def _ask_here(self, question: Question) -> ErrorCode:
        transactional_id, producer, partition = question
        try:
            shard = self._transactions.shard_of(transactional_id)
            missing = shard.missing_partitions(transactional_id, producer, [partition])
        except Refused as refused:
            return refused.code
        return ErrorCode.TRANSACTION_ABORTABLE if missing else ErrorCode.NONE

    async def _ask_all(self, broker_id: int, queue: list[Waiting]) -> None:
        """Ask what is queued for a broker; return when nothing is."""
        while queue:
            asked = take_questions(queue)
            try:
                answer = await self._connections.ask(broker_id, _request_of(asked), self._version)
            except PeerFailed:
                codes: dict[tuple[str, TopicPartition], int] = {}
                other = ErrorCode.NETWORK_EXCEPTION
            else:
                assert isinstance(answer, AddPartitionsToTxnResponse)
                codes, other = _codes_of(answer), error_code(answer.error_code)
            for question, waiting in asked:
                if not waiting.done():
                    code = codes.get((question.transactional_id, question.partition), other)
                    waiting.set_result(error_code(code) or ErrorCode.NONE)
        self._queues.pop(broker_id, None)


def refusal(code: ErrorCode, *, knows_abortable: bool) -> NotVerified | None:
    """What a producer is told of an answer; None: append the batch.

    `knows_abortable`: whether the version of its request has TRANSACTION_ABORTABLE (KIP-890).
    """
    if code is ErrorCode.NONE:
        return None
    if code in _LATER:
        message = f"the coordinator could not tell: {code.name}"
        return NotVerified(ErrorCode.NOT_ENOUGH_REPLICAS, code, message)
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return NotVerified(code, code, "the partition is not known to be in the transaction")


def take_questions(queue: list[Waiting]) -> list[Waiting]:
    """Remove the questions of the next request from the queue, in their order.

    An answer names the transactional id and no producer. So a request has one producer for each id;
    questions about another one, such as an older epoch, wait for the next request.
    """
    producers: dict[str, Producer] = {}
    taken, left = list[Waiting](), list[Waiting]()
    for waiting in queue:
        question = waiting[0]
        fits = len(taken) < QUESTIONS_MAX and question.producer == producers.setdefault(
            question.transactional_id, question.producer
        )
        (taken if fits else left).append(waiting)
    queue[:] = left
    return taken


def _request_of(asked: Sequence[Waiting]) -> AddPartitionsToTxnRequest:
    by_transaction: dict[tuple[str, Producer], set[TopicPartition]] = {}
    for (transactional_id, producer, partition), _ in asked:
        by_transaction.setdefault((transactional_id, producer), set()).add(partition)
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                verify_only=True,
                topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=indexes)
                    for name, indexes in by_topic(partitions).items()
                ],
            )
            for (transactional_id, producer), partitions in by_transaction.items()
        ]
    )


def _codes_of(answer: AddPartitionsToTxnResponse) -> dict[tuple[str, TopicPartition], int]:
    return {
        (result.transactional_id, (topic.name, partition.partition_index)): (
            partition.partition_error_code
        )
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
