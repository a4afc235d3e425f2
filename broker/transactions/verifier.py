"""Asks coordinators about a transaction, before a batch opens it in a partition.

Without that, a batch that arrives after the end of its transaction would open another one, which
nobody ends (KIP-890). So producers of version 1 add the partition first, and the coordinator is
asked whether they did; for those of version 2 the coordinator is asked to add it. This broker's own
coordinator is asked by a direct call. Other questions go out together: one AddPartitionsToTxn is in
flight for each broker.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused, error_code
from odradek.protocol.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.schema import Message

from ..core.effects import Producer
from ..core.partition_state import TopicPartition, by_topic
from ..peers.peer import PeerFailed
from ..peers.peer_connections import PeerConnections
from ..tasks import TaskSupervisor

if TYPE_CHECKING:
    from ..local_broker import LocalBroker
    from ..peers.addresses import Peers
    from .coordinator import TransactionCoordinator
    from .marker_queues import CallSelf

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
    """Whether a partition is in a producer's open transaction, or may be added to it."""

    transactional_id: str
    producer: Producer
    partition: TopicPartition
    adds: bool = False


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
        call_self: "CallSelf",
    ) -> None:
        self._local = local
        self._tasks = tasks
        self._version = peers.versions.add_partitions_to_txn
        self._connections = PeerConnections(
            peers, local.broker_id, timeout_ms=local.config.request_timeout_ms
        )
        self._transactions = transactions
        self._call_self = call_self
        self._queues: dict[int, list[Waiting]] = {}
        """The questions for each broker that a task is asking."""
        self._is_counting = False

    def ask(self, question: Question) -> "ErrorCode | asyncio.Future[ErrorCode]":
        """NONE if the partition is in the transaction, or why not; at once, or later.

        Pass the code to `check_answer`.
        """
        topic, transactional_id = self._transactions.topic, question.transactional_id
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        number = topic.partition_of(transactional_id)
        state = None if number is None else self._local.metadata.partition(topic.name, number)
        if state is None:
            self._count_once()
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if state.leader == self._local.broker_id and not question.adds:
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

    def _count_once(self) -> None:
        if not self._is_counting:
            self._is_counting = True
            self._tasks.spawn(self._count(), "count transactions")

    async def _count(self) -> None:
        try:
            with contextlib.suppress(Refused):  # the producer asks again
                await self._transactions.topic.count()
        finally:
            self._is_counting = False

    def _ask_here(self, question: Question) -> ErrorCode:
        transactional_id, producer, partition, _ = question
        try:
            shard = self._transactions.shard_of(transactional_id)
            missing = shard.missing_partitions(transactional_id, producer, [partition])
        except Refused as refused:
            return refused.code
        return ErrorCode.TRANSACTION_ABORTABLE if missing else ErrorCode.NONE

    async def _ask_all(self, broker_id: int, queue: list[Waiting]) -> None:
        """Ask what is queued for a broker; return when nothing is."""
        try:
            while queue:
                await self._ask_about(broker_id, take_questions(queue))
        finally:
            self._queues.pop(broker_id, None)
            _answer(queue, {}, ErrorCode.NETWORK_EXCEPTION)

    async def _ask_about(self, broker_id: int, asked: Sequence[Waiting]) -> None:
        codes: dict[tuple[str, TopicPartition], int] = {}
        other = ErrorCode.NETWORK_EXCEPTION
        try:
            answer = await self._send(broker_id, _request_of(asked))
            assert isinstance(answer, AddPartitionsToTxnResponse)
            codes, other = _codes_of(answer), error_code(answer.error_code) or other
        except PeerFailed:
            pass  # the producer asks again
        finally:
            _answer(asked, codes, other)

    async def _send(self, broker_id: int, request: AddPartitionsToTxnRequest) -> Message:
        """Raises: PeerFailed."""
        if broker_id != self._local.broker_id:
            return await self._connections.ask(broker_id, request, self._version)
        answer = self._call_self(request, self._version)
        return await answer if isinstance(answer, Awaitable) else answer


def check_answer(code: ErrorCode, *, knows_abortable: bool, adds: bool = False) -> None:
    """Check that the batch may be appended, by the coordinator's answer.

    `knows_abortable`: whether the version of its request has TRANSACTION_ABORTABLE (KIP-890).
    `adds`: whether it adds the partition; then it also knows CONCURRENT_TRANSACTIONS.
    Raises: NotVerified (what the producer is told).
    """
    if code is ErrorCode.NONE:
        return
    if code in _LATER and not (adds and code is ErrorCode.CONCURRENT_TRANSACTIONS):
        message = f"the coordinator could not tell: {code.name}"
        raise NotVerified(ErrorCode.NOT_ENOUGH_REPLICAS, code, message)
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    raise NotVerified(code, code, "the partition is not known to be in the transaction")


def take_questions(queue: list[Waiting]) -> list[Waiting]:
    """Remove the questions of the next request from the queue, in their order.

    An answer names the transactional id, but neither the producer nor whether a partition was to be
    added. So a request has one producer for each id, and either adds all its partitions or none;
    other questions, such as those of an older epoch, wait for the next request.
    """
    kinds: dict[str, tuple[Producer, bool]] = {}
    taken, left = list[Waiting](), list[Waiting]()
    for waiting in queue:
        question = waiting[0]
        kind = question.producer, question.adds
        is_full = len(taken) == QUESTIONS_MAX
        if is_full or kinds.setdefault(question.transactional_id, kind) != kind:
            left.append(waiting)
        else:
            taken.append(waiting)
    queue[:] = left
    return taken


def _request_of(asked: Sequence[Waiting]) -> AddPartitionsToTxnRequest:
    by_transaction: dict[tuple[str, Producer, bool], set[TopicPartition]] = {}
    for question, _ in asked:
        key = question.transactional_id, question.producer, question.adds
        by_transaction.setdefault(key, set()).add(question.partition)
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                verify_only=not adds,
                topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=indexes)
                    for name, indexes in by_topic(partitions).items()
                ],
            )
            for (transactional_id, producer, adds), partitions in by_transaction.items()
        ]
    )


def _answer(
    asked: Sequence[Waiting], codes: dict[tuple[str, TopicPartition], int], other: ErrorCode
) -> None:
    """Answer each question with its code, or with `other` if it has none."""
    for question, waiting in asked:
        if not waiting.done():
            code = codes.get((question.transactional_id, question.partition), other)
            waiting.set_result(error_code(code) or ErrorCode.NONE)


def _codes_of(answer: AddPartitionsToTxnResponse) -> dict[tuple[str, TopicPartition], int]:
    return {
        (result.transactional_id, (topic.name, partition.partition_index)): (
            partition.partition_error_code
        )
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
