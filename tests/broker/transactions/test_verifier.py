"""Questions for another broker: which go out together, and whose answer is whose."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.broker.core.effects import Producer
from odradek.broker.tasks import TaskSupervisor
from odradek.broker.transactions import verifier
from odradek.broker.transactions.verifier import Question, Verifier
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

OLD, NEW, OTHER = Producer(7, 0), Producer(7, 1), Producer(8, 0)


class Coordinator:
    """Another broker, which knows the producer `NEW` only."""

    def __init__(self, *, is_mute: bool = False, fault: Exception | None = None) -> None:
        self.is_mute = is_mute
        self.fault = fault
        self.requests: list[AddPartitionsToTxnRequest] = []

    async def ask(
        self, broker_id: int, request: AddPartitionsToTxnRequest, version: int
    ) -> AddPartitionsToTxnResponse:
        self.requests.append(request)
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        results = [] if self.is_mute else [_result(each) for each in request.transactions]
        return AddPartitionsToTxnResponse(results_by_transaction=results)


def _result(asked: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
    is_known = (asked.producer_id, asked.producer_epoch) == NEW
    code = ErrorCode.NONE if is_known else ErrorCode.PRODUCER_FENCED
    return AddPartitionsToTxnResult(
        transactional_id=asked.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=code
                    )
                    for index in topic.partitions
                ],
            )
            for topic in asked.topics
        ],
    )


async def ask_all(
    coordinator: Coordinator, questions: list[Question], monkeypatch: pytest.MonkeyPatch
) -> list[ErrorCode]:
    """Ask all at once; the answers, in the order of the questions."""
    monkeypatch.setattr(verifier, "PeerConnections", lambda *args, **kwargs: coordinator)
    local = SimpleNamespace(
        broker_id=1,
        config=SimpleNamespace(request_timeout_ms=1000),
        metadata=SimpleNamespace(partition=lambda *key: SimpleNamespace(leader=2)),
    )
    topic = SimpleNamespace(name="__transaction_state", partition_of=lambda key: 0)
    asker = Verifier(
        cast("Any", local),
        TaskSupervisor(),
        cast("Any", SimpleNamespace(versions=SimpleNamespace(add_partitions_to_txn=4))),
        cast("Any", SimpleNamespace(topic=topic)),
        cast("Any", None),
    )
    answers = [asker.ask(question) for question in questions]
    async with asyncio.timeout(10):
        return [answer if isinstance(answer, ErrorCode) else await answer for answer in answers]


@pytest.mark.parametrize("producers", [(OLD, NEW), (NEW, OLD), (OTHER, NEW), (NEW, OTHER, OLD)])
def test_each_producer_of_an_id_gets_its_own_answer(
    producers: tuple[Producer, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = Coordinator()
    questions = [Question("x", producer, ("t", 0)) for producer in producers]
    codes = asyncio.run(ask_all(coordinator, questions, monkeypatch))
    right = [ErrorCode.NONE if p == NEW else ErrorCode.PRODUCER_FENCED for p in producers]
    assert codes == right
    assert [len(request.transactions) for request in coordinator.requests] == [1] * len(producers)


def test_a_request_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier, "QUESTIONS_MAX", 3)
    coordinator = Coordinator()
    questions = [Question(f"x{number}", NEW, ("t", 0)) for number in range(7)]
    codes = asyncio.run(ask_all(coordinator, questions, monkeypatch))
    assert codes == [ErrorCode.NONE] * 7
    assert [len(request.transactions) for request in coordinator.requests] == [3, 3, 1]
    asked = [each.transactional_id for r in coordinator.requests for each in r.transactions]
    assert asked == [question.transactional_id for question in questions]


def test_a_question_without_an_answer_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = asyncio.run(
        ask_all(Coordinator(is_mute=True), [Question("x", NEW, ("t", 0))], monkeypatch)
    )
    assert codes == [ErrorCode.NETWORK_EXCEPTION]


@pytest.mark.parametrize("producers", [(OLD, NEW), (NEW, OLD)])
def test_a_failed_request_answers_all_that_waits(
    producers: tuple[Producer, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those which would have gone out in the next request."""
    questions = [Question("x", producer, ("t", 0)) for producer in producers]
    coordinator = Coordinator(fault=RuntimeError("a bug"))
    codes = asyncio.run(ask_all(coordinator, questions, monkeypatch))
    assert codes == [ErrorCode.NETWORK_EXCEPTION] * 2


def test_a_request_does_not_both_verify_and_add_for_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator()
    questions = [Question("x", NEW, ("t", 0), adds) for adds in (False, True, False)]
    asyncio.run(ask_all(coordinator, questions, monkeypatch))
    asked = [[each.verify_only for each in r.transactions] for r in coordinator.requests]
    assert asked == [[True], [False]]
