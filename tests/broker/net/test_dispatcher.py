"""The conversation on one connection, with handlers whose answers the test gives."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.broker.config import Config
from odradek.broker.core.refused_batches import RefusedBatches
from odradek.broker.handlers import Answer, Api
from odradek.broker.metrics.metrics import Metrics
from odradek.broker.net import dispatcher as module
from odradek.broker.net.call import ANONYMOUS, Call, CloseConnection
from odradek.broker.net.dispatcher import PARKED_PRODUCES_MAX, Dispatcher
from odradek.broker.net.eager_future import EagerFuture
from odradek.broker.node import Node
from odradek.broker.quotas import Quotas
from odradek.broker.runtime import Clock, Runtime
from odradek.protocol.errors import ErrorCode, MalformedMessage, Truncated, UnsupportedVersion
from odradek.protocol.messages.k00_produce import ProduceRequest, ProduceResponse
from odradek.protocol.messages.k01_fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.primitives import Writer
from odradek.protocol.schema import Message
from odradek.storage.log.span import Span
from tests.support.awaiting import turns
from tests.support.frames import request_bytes
from tests.support.messages import batch_of, produce_request

PRODUCE, FETCH = ProduceRequest.API_KEY, FetchRequest.API_KEY


class FakeClient:
    """What a dispatcher does to its connection."""

    listener_name = entrance = "PLAINTEXT"
    host = "client"
    active_ms = 0
    principal = ANONYMOUS
    refused_batches: RefusedBatches | None = None

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.resumed = 0
        self.closed: list[str] = []
        self.on_close: Callable[[], None] = lambda: None

    @property
    def answered(self) -> list[int]:
        """The correlation ids, in the order in which they were answered."""
        return [int.from_bytes(frame[4:8], "big") for frame in self.sent]

    def send(self, out: Writer) -> None:
        self.sent.append(bytes(out))
        for _, span in out.splices:
            assert isinstance(span, Span)
            span.release()

    def note_software(self, software: str) -> None:
        raise NotImplementedError

    def gather(self) -> None:
        pass

    def send_gathered(self) -> None:
        pass

    def keep_memory(self, size_bytes: int) -> None:
        raise NotImplementedError

    def let_go_memory(self, size_bytes: int) -> None:
        raise NotImplementedError

    def resume(self) -> None:
        self.resumed += 1

    def close(self, reason: str) -> None:
        self.closed.append(reason)
        self.on_close()


class LateAnswer(EagerFuture[Message]):
    """An answer that is sent a turn of the loop after it is known."""

    def __init__(self) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.add_done_callback(lambda _: self.tell())


class ConversationClock(Clock):
    """Stands still until the test moves it."""

    def __init__(self, conversation: "Conversation") -> None:
        self._conversation = conversation

    def now_ms(self) -> int:
        return self._conversation.now_ms

    def wall_ms(self) -> int:
        raise NotImplementedError


class Conversation:
    """A dispatcher whose requests are answered as the test says."""

    def __init__(self) -> None:
        self.client = FakeClient()
        self.answers: list[Answer | Exception] = []
        self.requests: list[Message] = []
        self.metrics, self.now_ms, self.now_ns = Metrics(), 0, 0
        clock = ConversationClock(self)
        config = SimpleNamespace(
            odradek_transaction_version=0, odradek_non_produce_request_bytes_max=1 << 20
        )
        self.quotas = Quotas(
            Config(),
            cast(Runtime, SimpleNamespace(clock=clock, loop_ns=lambda: self.now_ns)),
            exempt_listeners=frozenset({"BROKERS"}),
        )
        apis = [
            Api(PRODUCE, "Produce", last=11, flexible=9),
            Api(FETCH, "Fetch", last=17, flexible=12),
            Api(18, "ApiVersions", last=4, flexible=3),
        ]
        for api in apis:
            api.handle = self.handle
        self.apis = {api.key: api for api in apis}
        node = SimpleNamespace(
            metrics=self.metrics,
            clock=clock,
            config=config,
            quotas=self.quotas,
            acls=None,
            interceptor=None,
            apis_on=lambda listener_name: self.apis,
        )
        self.dispatcher = Dispatcher(cast(Node, node), self.client)
        self.client.on_close = self.dispatcher.close
        self.correlation_id = 0

    def handle(self, request: Message, call: Call, node: Node) -> Answer:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask(self, request: Message, version: int, answer: Answer | Exception) -> None:
        """Let a request come in."""
        self.answers.append(answer)
        self.correlation_id += 1
        self.dispatcher.on_frame(memoryview(request_bytes(request, version, self.correlation_id)))

    def waits(self, request: Message, version: int) -> "asyncio.Future[Message]":
        """Let a request come in whose answer is parked."""
        answer = LateAnswer()
        self.ask(request, version, answer)
        return answer

    def has_not_appended(self) -> "asyncio.Future[Message | None]":
        """Let a Produce come in that must wait before it appends."""
        answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        self.ask(a_produce(), 11, answer)
        return answer


@pytest.fixture
def conversation() -> Conversation:
    return Conversation()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def a_produce() -> ProduceRequest:
    return produce_request("t", {0: batch_of(b"v")})


class Spanned(FetchResponse, api_key=1, versions="0-17", flexible="12+"):
    """An answer that notices its release."""

    __slots__ = ("released",)

    def release(self) -> None:
        self.released = True


def test_an_answer_that_is_known_is_sent_at_once(conversation: Conversation) -> None:
    conversation.ask(a_produce(), 11, ProduceResponse())
    assert conversation.client.answered == [1]


def test_no_answer_is_owed_if_there_is_none(conversation: Conversation) -> None:
    conversation.ask(a_produce(), 11, None)
    assert conversation.client.sent == []


def test_requests_are_counted_by_their_api(conversation: Conversation) -> None:
    def counted() -> dict[str, tuple[int, int, int, int]]:
        return {
            api: (each.count, each.received_bytes, each.sent_bytes, each.total_ms)
            for api, each in conversation.metrics.requests.items()
        }

    async def main() -> None:
        size_bytes = len(request_bytes(a_produce(), 11, 1))
        conversation.ask(a_produce(), 11, None)
        assert counted() == {"Produce": (1, size_bytes, 0, 0)}
        waiting = conversation.waits(a_produce(), 11)
        conversation.client.active_ms = conversation.now_ms = 30
        conversation.ask(a_produce(), 11, ProduceResponse())  # it waits behind the other one
        conversation.now_ms = 50
        waiting.set_result(ProduceResponse())
        await turns()
        first, second = conversation.client.sent
        sent_bytes = len(first) - 4 + len(second) - 4
        assert counted() == {"Produce": (3, 3 * size_bytes, sent_bytes, 50 + 20)}
        unserved = b"\0\x12\0\x09\0\0\0\1\xff\xff"  # ApiVersions 9
        conversation.dispatcher.on_frame(memoryview(unserved))
        assert counted()["ApiVersions"][0] == 1

    run(main())


def test_views_end_with_the_handler(conversation: Conversation) -> None:
    conversation.ask(a_produce(), 11, ProduceResponse())
    request = cast(ProduceRequest, conversation.requests[0])
    with pytest.raises(ValueError, match="released"):
        bytes(cast(memoryview, request.topic_data[0].partition_data[0].records))


def test_answers_keep_the_order_of_the_requests(conversation: Conversation) -> None:
    async def main() -> None:
        first, second = (conversation.waits(a_produce(), 11) for _ in range(2))
        conversation.ask(a_produce(), 11, ProduceResponse())
        fourth = conversation.waits(a_produce(), 11)
        second.set_result(ProduceResponse())
        fourth.set_result(ProduceResponse())
        await turns()
        assert conversation.client.sent == []
        first.set_result(ProduceResponse())
        await turns()
        assert conversation.client.answered == [1, 2, 3, 4]
        assert conversation.client.resumed == 1

    run(main())


def test_what_is_ready_goes_before_what_is_not(conversation: Conversation) -> None:
    async def main() -> None:
        first, second = (conversation.waits(a_produce(), 11) for _ in range(2))
        first.set_result(ProduceResponse())
        await turns()
        assert conversation.client.answered == [1]
        second.set_result(ProduceResponse())
        await turns()
        assert conversation.client.answered == [1, 2]

    run(main())


def test_so_many_produces_may_wait(conversation: Conversation) -> None:
    async def main() -> None:
        frame = memoryview(request_bytes(a_produce(), 11))
        fetch = memoryview(request_bytes(FetchRequest(), 12))
        for _ in range(PARKED_PRODUCES_MAX):
            assert not conversation.dispatcher.parked or conversation.dispatcher.may_follow(frame)
            assert not conversation.dispatcher.parked or not conversation.dispatcher.may_follow(
                fetch
            )
            conversation.waits(a_produce(), 11)
        assert not conversation.dispatcher.may_follow(frame)
        conversation.dispatcher.close()

    run(main())


def test_produces_of_so_many_bytes_may_wait(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        frame = memoryview(request_bytes(a_produce(), 11))
        monkeypatch.setattr(module, "PARKED_PRODUCES_BYTES_MAX", 2 * len(frame) + 1)
        answers = []
        for _ in range(3):
            assert conversation.dispatcher.may_follow(frame[:2])
            answers.append(conversation.waits(a_produce(), 11))
        assert conversation.dispatcher.is_held
        assert not conversation.dispatcher.may_follow(frame)
        answers[0].set_result(ProduceResponse())
        await turns()
        assert conversation.dispatcher.may_follow(frame)
        conversation.dispatcher.close()
        assert not conversation.dispatcher.is_held

    run(main())


def test_nothing_follows_a_produce_that_has_not_appended(conversation: Conversation) -> None:
    async def main() -> None:
        frame = memoryview(request_bytes(a_produce(), 11))
        dispatcher, client = conversation.dispatcher, conversation.client
        first = conversation.waits(a_produce(), 11)
        assert dispatcher.may_follow(frame)
        second = conversation.has_not_appended()
        assert not dispatcher.may_follow(frame)
        first.set_result(ProduceResponse())
        await turns()
        assert client.answered == [1]
        assert not dispatcher.may_follow(frame)
        second.set_result(ProduceResponse())
        await turns()
        assert client.answered == [1, 2]
        assert dispatcher.may_follow(frame)
        assert client.resumed == 2

    run(main())


def test_without_acks_it_ends_without_an_answer(conversation: Conversation) -> None:
    async def main() -> None:
        conversation.has_not_appended().set_result(None)
        await turns()
        assert not conversation.dispatcher.parked
        assert conversation.client.sent == []
        assert conversation.client.resumed == 1
        conversation.has_not_appended().set_exception(CloseConnection("no acks"))
        await turns()
        assert conversation.client.closed == ["no acks"]

    run(main())


@pytest.mark.parametrize("is_known", [False, True])
def test_a_closed_connection_keeps_no_produce(conversation: Conversation, is_known: bool) -> None:
    async def main() -> None:
        answer = conversation.has_not_appended()
        if is_known:
            answer.set_result(None)
        conversation.dispatcher.close()
        await turns()
        assert answer.cancelled() == (not is_known)

    run(main())


def test_nothing_follows_a_fetch_that_waits(conversation: Conversation) -> None:
    async def main() -> None:
        conversation.waits(FetchRequest(), 12)
        for request, version in ((a_produce(), 11), (FetchRequest(), 12)):
            frame = memoryview(request_bytes(request, version))
            assert not conversation.dispatcher.may_follow(frame)
        assert not conversation.dispatcher.may_follow(memoryview(b""))
        conversation.dispatcher.close()

    run(main())


def test_a_closed_connection_cancels_what_waits(conversation: Conversation) -> None:
    async def main() -> None:
        answer = conversation.waits(FetchRequest(), 12)
        conversation.dispatcher.close()
        await turns()
        assert answer.cancelled()
        assert conversation.client.sent == []
        assert conversation.client.closed == []

    run(main())


def test_what_was_ready_when_the_connection_closed_is_given_back(
    conversation: Conversation,
) -> None:
    async def main() -> None:
        response = Spanned()
        conversation.waits(FetchRequest(), 12).set_result(response)
        conversation.dispatcher.close()
        await turns()
        assert response.released
        assert conversation.client.sent == []

    run(main())


def test_nothing_is_sent_once_sending_has_closed_the_connection(
    conversation: Conversation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        first, second, _ = (conversation.waits(a_produce(), 11) for _ in range(3))
        client = conversation.client
        send = client.send

        def send_to_nobody(out: Writer) -> None:
            send(out)
            client.close("nobody is there")

        monkeypatch.setattr(client, "send", send_to_nobody)
        second.set_result(ProduceResponse())
        await turns()
        first.set_result(ProduceResponse())
        await turns()
        assert client.answered == [1]
        assert client.closed == ["nobody is there"]
        assert not caplog.records

    run(main())


def test_what_waited_behind_another_is_given_back(conversation: Conversation) -> None:
    async def main() -> None:
        response = Spanned()
        conversation.waits(a_produce(), 11)
        conversation.ask(a_produce(), 11, response)
        conversation.dispatcher.close()
        assert response.released

    run(main())


@pytest.mark.parametrize("error", [ValueError("bug"), CloseConnection("no acks")])
def test_a_failed_answer_closes(conversation: Conversation, error: Exception) -> None:
    async def main() -> None:
        failing, other = (conversation.waits(a_produce(), 11) for _ in range(2))
        failing.set_exception(error)
        await turns()
        expected = "no acks" if isinstance(error, CloseConnection) else "a request failed"
        assert conversation.client.closed == [expected]
        assert other.cancelled()
        assert conversation.client.resumed == 0

    run(main())


def test_answers_before_a_failed_one_are_sent(conversation: Conversation) -> None:
    async def main() -> None:
        good, bad = (conversation.waits(a_produce(), 11) for _ in range(2))
        bad.set_exception(ValueError("bug"))
        await turns()
        assert conversation.client.closed == []
        good.set_result(ProduceResponse())
        await turns()
        assert conversation.client.answered == [1]
        assert conversation.client.closed == ["a request failed"]

    run(main())


def test_an_answer_that_was_cancelled_by_itself_closes(conversation: Conversation) -> None:
    async def main() -> None:
        conversation.waits(FetchRequest(), 12).cancel()
        await turns()
        assert conversation.client.closed == ["a request failed"]

    run(main())


def test_an_answer_that_cannot_be_encoded_closes(conversation: Conversation) -> None:
    async def main() -> None:
        data = PartitionData(partition_index=1 << 40)
        response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
        conversation.waits(FetchRequest(), 12).set_result(response)
        await turns()
        assert conversation.client.closed == ["a request failed"]

    run(main())


def test_an_error_after_the_connection_closed_is_nobodys(conversation: Conversation) -> None:
    async def main() -> None:
        conversation.waits(FetchRequest(), 12).set_exception(ValueError("bug"))
        conversation.dispatcher.close()
        await turns()
        assert conversation.client.closed == []

    run(main())


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (b"", Truncated),
        (b"\0\0\0\0\0\0\0", Truncated),
        (b"\0\0\0\x0b\0\0\0\1", Truncated),
        (b"\0\0\0\x0c\0\0\0\1\xff\xff", UnsupportedVersion),
        (b"\0\0\xff\xff\0\0\0\1\xff\xff", UnsupportedVersion),
        (b"\x03\xe7\0\0\0\0\0\1\xff\xff", UnsupportedVersion),
        (b"\xff\xff\0\0\0\0\0\1\xff\xff", UnsupportedVersion),
    ],
)
def test_frames_that_mean_nothing(
    conversation: Conversation, frame: bytes, error: type[MalformedMessage]
) -> None:
    with pytest.raises(error):
        conversation.dispatcher.on_frame(memoryview(frame))
    assert conversation.client.sent == []


def test_only_produce_is_large(conversation: Conversation) -> None:
    large = bytes((1 << 20) + 1)
    with pytest.raises(MalformedMessage, match=r"Fetch of.*bytes\.max is 1048576"):
        conversation.dispatcher.on_frame(memoryview(request_bytes(FetchRequest(), 12) + large))
    conversation.answers.append(None)
    conversation.dispatcher.on_frame(memoryview(request_bytes(a_produce(), 11) + large))


def test_a_newer_api_versions_is_answered_in_v0(conversation: Conversation) -> None:
    frame = b"\0\x12\x7f\xff\0\0\0\7" + b"what a v32767 may hold"
    conversation.dispatcher.on_frame(memoryview(frame))
    (sent,) = conversation.client.sent
    assert sent[4:8] == b"\0\0\0\7"
    answer, end = ApiVersionsResponse.decode(sent, 0, 8)
    assert end == len(sent)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(a.api_key, a.min_version, a.max_version) for a in answer.api_keys] == [(18, 0, 4)]


def test_api_versions_is_answered_with_header_v0(conversation: Conversation) -> None:
    request = ApiVersionsRequest(client_software_name="n", client_software_version="1")
    conversation.ask(request, 4, ApiVersionsResponse(api_keys=[]))
    (sent,) = conversation.client.sent
    _, end = ApiVersionsResponse.decode(sent, 4, 8)
    assert end == len(sent)
