"""Carries out what the rules say about one request.

1. What a rule refuses is taken out of the request. `close` ends the connection here.
2. The rest is handled, and has its effect.
3. Errors and answers of rules are written into the response.
4. After a delay it is sent; or half of it; or nothing, and the connection closes.

If 4 waits, the answer is parked like any that waits, so that answers keep their order.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Final

from odradek.protocol.errors import ErrorCode, MalformedMessage, Refused
from odradek.protocol.framing import encode_response, read_request_start
from odradek.protocol.records import read_header
from odradek.protocol.schema import Message

from ..access import answer_of
from ..core.fetch_session import PartitionFetch
from ..core.partition import Partition
from ..core.refused_batches import note_refused
from ..handlers import Answer
from ..handlers.partly import completed
from ..net.call import Call, CloseConnection
from ..quotas import Usage
from .answer_fields import check_fields, set_fields
from .answers import add_errors, put_errors, refused_whole
from .matching import Plan, Refusal, selects
from .places import WHOLE
from .rule import Rule
from .seen import FETCH_KEY, Seen, topic_names
from .targets import Target, base_of, path_of, walk, without

if TYPE_CHECKING:
    from ..node import Node

PRODUCE_KEY: Final = 0
ONLY_READ: Final = frozenset({3, 32, 35})
"""Metadata, DescribeConfigs, DescribeLogDirs are handled as a whole, and errors written into the
answer: it also has what the request does not name."""
HALF_BYTES_MIN: Final = 6
"""More than the size of the frame, so that the client waits for the rest."""


class Carrying:
    """The carrying out of a plan for one request."""

    def __init__(
        self, plan: Plan, seen: Seen, request: Message, call: Call, node: "Node", frame: memoryview
    ) -> None:
        self._plan = plan
        self._api, self._version = seen.api, seen.version
        self._request = request
        self._call = call
        self._node = node
        _, _, self._correlation_id = read_request_start(frame)
        self._path = path_of(seen.api.response, seen.version)
        self._base = base_of(request, seen.version)

    def out(self) -> Answer:
        """The answer, which may be none."""
        plan = self._plan
        if plan.throttle_ms:
            self._throttle(plan.throttle_ms)
        ending = plan.ending
        answer: Answer
        if ending is not None and ending.rule.close and not ending.rule.applied:
            answer = None
        else:
            answer = self._handle()
        return self._later(answer) if plan.waits else answer

    def _throttle(self, throttle_ms: int) -> None:
        usage = self._call.usage
        if usage is None:
            usage = self._call.usage = Usage(self._node.quotas)
        usage.imposed_ms = throttle_ms

    # Errors instead of handling, in place of all or of a part.

    def _handle(self) -> Answer:
        refusals = self._plan.refusals
        whole = next((each for each in refusals if each.place is WHOLE), None)
        if whole is not None:
            return self._refused_whole(whole)
        if not refusals:
            answer = answer_of(self._api, self._request, self._call, self._node)
        elif self._api.key == FETCH_KEY:
            node = _RefusingNode(self._node, _codes(refusals))
            answer = answer_of(self._api, self._request, self._call, node)  # type: ignore[arg-type]
        else:
            answer = self._handle_rest(refusals)
        if not (self._plan.applied or self._plan.answers):
            return answer
        if self._plan.applied and self._is_unanswered:
            _give_up(_future(answer))
            raise self._closing_unanswered(self._plan.applied)
        return completed(answer, self._complete)

    def _handle_rest(self, refusals: list[Refusal]) -> Answer:
        taken = frozenset[Target]().union(*(each.targets for each in refusals))
        path = path_of(type(self._request), self._version)
        if self._api.key in ONLY_READ or self._base in taken or not path:
            whole = answer_of(self._api, self._request, self._call, self._node)
            return completed(whole, lambda response: self._put(response, refusals))
        names = topic_names(self._node)
        if self._api.key == PRODUCE_KEY:
            self._note_refused(refusals)
        rest = without(self._request, path, self._base, names, taken)
        if rest is None:
            answer: Answer = self._api.response()
        else:
            answer = answer_of(self._api, rest, self._call, self._node)
        if self._is_unanswered:
            _give_up(_future(answer))
            raise self._closing_unanswered(refusals)
        return completed(answer, lambda response: self._add(response, refusals))

    def _note_refused(self, refusals: list[Refusal]) -> None:
        """A producer must send a refused batch again before those that it has sent after it."""
        codes = _codes(refusals)
        path = path_of(type(self._request), self._version)
        for target, data, _ in walk(self._request, path, self._base, topic_names(self._node)):
            if target.partition is None:  # a topic without partitions
                continue
            key = target.topic or "", target.partition
            if key in codes and data.records:
                with contextlib.suppress(MalformedMessage):
                    note_refused(self._call.client, key, read_header(data.records), codes[key])

    @property
    def _is_unanswered(self) -> bool:
        return self._api.key == PRODUCE_KEY and getattr(self._request, "acks", 1) == 0

    def _closing_unanswered(self, refusals: list[Refusal]) -> CloseConnection:
        """That is how a producer learns of errors that it wants no answer about."""
        return CloseConnection(f"a fault: {refusals[0].error.name} of a Produce with acks=0")

    def _refused_whole(self, refusal: Refusal) -> Message:
        return refused_whole(self._api, self._request, self._version, refusal.error)

    def _add(self, response: Message, refusals: list[Refusal]) -> None:
        for each in refusals:
            path = self._path[: _index(each) + 1]
            add_errors(response, path, each.targets, each.error, self._version)

    def _put(self, response: Message, refusals: list[Refusal]) -> None:
        for each in refusals:
            put_errors(
                response,
                self._path[: _index(each) + 1],
                lambda target, rule=each.rule: selects(rule, target),  # type: ignore[misc]
                each.error,
                self._version,
                self._base,
                topic_names(self._node),
            )

    # Errors and answers after handling.

    def _complete(self, response: Message) -> None:
        self._put(response, [each for each in self._plan.applied if each.place is not WHOLE])
        for each in self._plan.applied:
            if each.place is WHOLE:
                _replace(response, self._refused_whole(each))
        for rule in self._plan.answers:
            set_fields(
                response,
                self._version,
                self._fields(rule, response),
                lambda target, rule=rule: selects(rule, target),  # type: ignore[misc]
                self._base,
                topic_names(self._node),
            )

    def _fields(self, rule: Rule, response: Message) -> Mapping[str, Any]:
        """Raises: ValueError: a function of the test is wrong."""
        if rule.function is None:
            return rule.answer or {}
        fields = rule.function(self._request, response)
        problem = check_fields(self._api, fields) if fields else None
        if problem is not None:
            raise ValueError(f"the answer function of a rule: {problem}")
        return fields

    # Waiting, and the end of the connection.

    def _later(self, answer: Answer) -> Awaitable[Message | None]:
        known = _future(answer)
        later = asyncio.ensure_future(self._send_later(known))

        def on_end(ended: asyncio.Future[Message | None]) -> None:
            if ended.cancelled() or ended.exception() is not None:
                _give_up(known)

        later.add_done_callback(on_end)
        return later

    async def _send_later(self, known: "asyncio.Future[Message | None]") -> Message | None:
        response = await known
        await asyncio.sleep(self._plan.delay_s)
        ending = self._plan.ending
        if ending is None:
            return response
        closing = CloseConnection(f"fault {ending.id} at {self._api.name}")
        if ending.rule.half_response and response is not None:
            closing.last = self._half(response)
        raise closing

    def _half(self, response: Message) -> bytes:
        flexible = self._version >= self._api.flexible_response
        out = encode_response(
            response, self._version, self._correlation_id, flexible_header=flexible
        )
        pieces, start = [], 0
        for position, span in out.splices:
            pieces += [bytes(out[start:position]), span.read()]  # type: ignore[attr-defined]
            start = position
        whole = b"".join([*pieces, bytes(out[start:])])
        return whole[: max(len(whole) // 2, HALF_BYTES_MIN)]


class _RefusingNode:
    """The node, on which some partitions can't be fetched.

    A Fetch finds its partitions one by one, also those of its session, and reads them again while
    it waits; so a refusal belongs where they are looked up.
    """

    def __init__(self, node: "Node", codes: Mapping[tuple[str | bytes, int], ErrorCode]) -> None:
        self._node = node
        self._codes = codes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def find_by_name(self, fetch: PartitionFetch) -> Partition:
        """The replica for a Fetch up to v12.  Raises: Refused."""
        self._check(fetch)
        return self._node.find_by_name(fetch)

    def find_by_id(self, fetch: PartitionFetch) -> Partition:
        """The replica for a Fetch from v13 on.  Raises: Refused."""
        self._check(fetch)
        return self._node.find_by_id(fetch)

    def _check(self, fetch: PartitionFetch) -> None:
        code = self._codes.get(fetch.key)
        if code is not None:
            raise Refused(code)


def _codes(refusals: list[Refusal]) -> dict[tuple[str | bytes, int], ErrorCode]:
    """The errors of partitions, by name and by id of their topics."""
    codes: dict[tuple[str | bytes, int], ErrorCode] = {}
    for each in refusals:
        for target in each.targets:
            if target.partition is not None:
                codes[target.topic_id, target.partition] = each.error
                if target.topic is not None:
                    codes[target.topic, target.partition] = each.error
    return codes


def _index(refusal: Refusal) -> int:
    assert isinstance(refusal.place, int)
    return refusal.place


def _replace(response: Message, other: Message) -> None:
    """Make a response another one of the same API."""
    response.release()
    for field in response.FIELDS:
        setattr(response, field.name, getattr(other, field.name))


def _future(answer: Answer) -> "asyncio.Future[Message | None]":
    if answer is None or isinstance(answer, Message):
        known: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        known.set_result(answer)
        return known
    return asyncio.ensure_future(answer)


def _give_up(known: "asyncio.Future[Message | None]") -> None:
    """Nobody will send this answer."""
    if known.cancel() or known.cancelled():
        return
    response = None if known.exception() else known.result()
    if response is not None:
        response.release()
