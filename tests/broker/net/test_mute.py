"""What a connection does while its client is throttled."""

import asyncio

import pytest

from odradek.broker.net.dispatcher import Mute
from odradek.protocol.messages.k00_produce import ProduceResponse
from odradek.protocol.messages.k01_fetch import FetchResponse
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.awaiting import turns
from tests.support.messages import fetch_request

from .test_dispatcher import PRODUCE, Conversation, LateAnswer, a_produce, conversation, run

__all__ = ["conversation"]  # the fixture

NS_PER_S = 1_000_000_000


def throttled(conversation: Conversation) -> list[int]:
    """The time by which each answer so far says that it throttles; each is a Produce 11."""
    return [
        ProduceResponse.decode(frame[9:], 11)[0].throttle_time_ms for frame in sent(conversation)
    ]


def sent(conversation: Conversation) -> list[bytes]:
    return conversation.client.sent


def quota(conversation: Conversation, **quotas: float) -> None:
    conversation.quotas.change({"user": None}, quotas)


def mute_of(conversation: Conversation) -> Mute:
    last = conversation.dispatcher.parked[-1]
    assert isinstance(last, Mute)
    return last


async def end_mute(conversation: Conversation) -> None:
    """As if its time were over."""
    mute = mute_of(conversation)
    mute._end()
    await turns()


def may_follow(conversation: Conversation) -> bool:
    """Whether the next Produce may be handled."""
    return conversation.dispatcher.may_follow(b"\0\0")


def test_the_answer_is_sent_at_once_and_then_nothing_is_handled(conversation: Conversation) -> None:
    async def main() -> None:
        quota(conversation, producer_byte_rate=1.0)
        conversation.ask(a_produce(), 11, ProduceResponse())
        (throttle_ms,) = throttled(conversation)
        assert throttle_ms > 60_000
        assert conversation.metrics.requests["Produce"].throttled_ms == throttle_ms
        assert conversation.dispatcher.is_held
        assert not may_follow(conversation)
        assert conversation.client.resumed == 0
        await end_mute(conversation)
        assert conversation.client.resumed == 1
        assert may_follow(conversation)
        assert len(sent(conversation)) == 1

    run(main())


def test_answers_that_waited_are_sent_while_the_client_is_muted(conversation: Conversation) -> None:
    async def main() -> None:
        quota(conversation, producer_byte_rate=1.0)
        waiting = [conversation.waits(a_produce(), 11) for _ in range(3)]
        waiting[0].set_result(ProduceResponse())
        await turns()
        assert len(sent(conversation)) == 1
        first = mute_of(conversation)
        assert conversation.dispatcher.is_held
        for answer in waiting[1:]:
            answer.set_result(ProduceResponse())
            await turns()
        assert mute_of(conversation) is first, "one mute, which lasts longer"
        assert throttled(conversation) == sorted(throttled(conversation))
        assert first._until_ms == max(throttled(conversation))
        assert len(conversation.dispatcher.parked) == 1
        await end_mute(conversation)
        assert not conversation.dispatcher.parked

    run(main())


def test_a_mute_that_ends_before_an_answer_waits_for_it(conversation: Conversation) -> None:
    async def main() -> None:
        quota(conversation, producer_byte_rate=1.0)
        first, second = (conversation.waits(a_produce(), 11) for _ in range(2))
        first.set_result(ProduceResponse())
        await turns()
        await end_mute(conversation)
        assert conversation.dispatcher.is_held
        quota(conversation)  # so the second is not throttled
        second.set_result(ProduceResponse())
        await turns()
        assert len(sent(conversation)) == 2
        assert not conversation.dispatcher.parked

    run(main())


def test_a_produce_without_answer_mutes(conversation: Conversation) -> None:
    async def main() -> None:
        quota(conversation, producer_byte_rate=1.0, request_percentage=1.0)
        conversation.ask(a_produce(), 11, None)
        assert sent(conversation) == []
        assert conversation.dispatcher.is_held
        await end_mute(conversation)
        later = conversation.has_not_appended()
        later.set_result(None)
        await turns()
        assert conversation.dispatcher.is_held
        conversation.dispatcher.close()

    run(main())


@pytest.mark.parametrize("is_known", [True, False])
def test_hanging_up_ends_the_mute(conversation: Conversation, is_known: bool) -> None:
    async def main() -> None:
        quota(conversation, producer_byte_rate=1.0)
        if is_known:
            conversation.ask(a_produce(), 11, ProduceResponse())
        else:
            conversation.waits(a_produce(), 11).set_result(ProduceResponse())
            await turns()
        mute = mute_of(conversation)
        conversation.dispatcher.close()
        await turns()
        assert isinstance(mute._timer, asyncio.TimerHandle)
        assert mute._timer.cancelled()
        assert conversation.client.resumed <= 1
        mute._end()  # a timer of the same turn

    run(main())


def test_the_time_of_the_loop_counts_and_waiting_does_not(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        quota(conversation, request_percentage=10.0)
        waiting = conversation.waits(a_produce(), 11)
        conversation.now_ns += 60 * NS_PER_S  # for followers, say
        waiting.set_result(ProduceResponse())
        await turns()
        assert throttled(conversation) == [0]

        def handle(*_: object) -> ProduceResponse:
            conversation.now_ns += 2 * NS_PER_S
            return ProduceResponse()

        monkeypatch.setattr(conversation.apis[PRODUCE], "handle", handle)
        conversation.ask(a_produce(), 11, None)
        assert throttled(conversation) == [0, 1000]  # ten seconds later it would be 10 %
        conversation.dispatcher.close()

    run(main())


def test_the_time_before_an_answer_is_parked_counts(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        quota(conversation, request_percentage=10.0)
        answer = LateAnswer()

        def handle(*_: object) -> LateAnswer:
            conversation.now_ns += 2 * NS_PER_S
            return answer

        monkeypatch.setattr(conversation.apis[PRODUCE], "handle", handle)
        conversation.ask(a_produce(), 11, None)
        conversation.now_ns += 60 * NS_PER_S
        answer.set_result(ProduceResponse())
        await turns()
        assert throttled(conversation) == [1000]
        (rate,) = (rate for rate, _ in conversation.quotas.client_rates._rates._entries.values())
        assert rate.measure(0) == 20.0  # percent of the ten seconds before
        conversation.dispatcher.close()

    run(main())


def test_what_is_decided_by_the_handler_counts(conversation: Conversation) -> None:
    async def main() -> None:
        quota(conversation, request_percentage=1000.0)
        conversation.ask(fetch_request("t"), 12, FetchResponse(throttle_time_ms=50, responses=[]))
        assert mute_of(conversation)._until_ms == 50
        conversation.dispatcher.close()

    run(main())


def test_a_listener_of_brokers_is_exempt(conversation: Conversation) -> None:
    quota(conversation, producer_byte_rate=1.0, request_percentage=0.0)
    conversation.client.listener_name = "BROKERS"
    conversation.ask(a_produce(), 11, ProduceResponse())
    assert throttled(conversation) == [0]
    assert not conversation.dispatcher.parked


def test_nothing_is_measured_without_quotas(conversation: Conversation) -> None:
    conversation.quotas.change({"ip": None}, {"connection_creation_rate": 1.0})
    conversation.ask(a_produce(), 11, ProduceResponse())
    conversation.ask(ApiVersionsRequest(), 3, ApiVersionsResponse())
    assert len(conversation.quotas.client_rates) == 0
    assert not conversation.dispatcher.parked
