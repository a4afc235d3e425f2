"""Notes requests in the journal, and completes each entry once its answer is known."""

import asyncio
import logging
from functools import cache
from typing import TYPE_CHECKING, Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.schema import ArrayOf, FieldType, Message, Struct

from ..handlers import Answer
from ..journal.journal import TEXT_SIGNS_MAX, TOPICS_MAX, UNANSWERED, Entry, Journal
from ..journal.recording import Recording, given_by
from .seen import Seen
from .targets import CODES

if TYPE_CHECKING:
    from ..node import Node
    from .matching import Plan

logger = logging.getLogger(__name__)

MS_PER_S: Final = 1000
WITH_SECRETS: Final = frozenset({17, 33, 36, 38, 39, 40, 41, 44, 51})
"""Requests that may hold a password, or what logs in like one: SaslHandshake and SaslAuthenticate,
(Incremental)AlterConfigs, those of delegation tokens, AlterUserScramCredentials.  Their frames are
not recorded."""


class Notes:
    """Writes the journal, without what brokers ask each other."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def begin(
        self, seen: Seen, plan: "Plan | None", frame: memoryview, node: "Node"
    ) -> "Noted | None":
        """Note a request; None: it does not belong in the journal."""
        if seen.is_inter_broker:
            return None
        entry = self._entry(seen, plan, len(frame), node.clock.wall_ms())
        if self.journal.records and seen.api.key not in WITH_SECRETS:
            entry.recording = Recording(frame=bytes(frame), topic_ids=_topic_ids(seen))
        self.journal.add(entry)
        return Noted(entry, self.journal)

    def end(self, noted: "Noted | None", answer: Answer) -> Answer:
        """Complete an entry when its answer is known; returns the answer to go on with."""
        if noted is None:
            return answer
        if answer is None or isinstance(answer, Message):
            noted.complete(answer)
            return answer
        future = asyncio.ensure_future(answer)
        future.add_done_callback(noted.on_end)
        return future

    def close(self, noted: "Noted | None") -> None:
        """Complete an entry whose request ends the connection."""
        if noted is not None:
            noted.close()

    def _entry(self, seen: Seen, plan: "Plan | None", size_bytes: int, at_ms: int) -> Entry:
        first = seen.targets[0]
        topics = dict.fromkeys(target.topic for target in seen.targets if target.topic is not None)
        return Entry(
            number=self.journal.next_number(),
            at_ms=at_ms,
            broker=seen.broker_id,
            api=seen.api.name,
            version=seen.version,
            client_id=_short(seen.client_id),
            principal=seen.principal,
            group=_short(first.group),
            transactional_id=_short(first.transactional_id),
            topics=[topic[:TEXT_SIGNS_MAX] for topic in list(topics)[:TOPICS_MAX]],
            size_bytes=size_bytes,
            faults=[] if plan is None else list(plan.faults),
        )


def _topic_ids(seen: Seen) -> dict[str, str]:
    """The names of topics that a request names by id."""
    return {
        target.topic_id.hex(): target.topic
        for target in seen.targets
        if target.topic is not None and target.topic_id != ZERO_UUID
    }


def _short(text: str | None) -> str | None:
    return None if text is None else text[:TEXT_SIGNS_MAX]


class Noted:
    """An entry to be completed.  Its clock is the loop's, which no test moves."""

    __slots__ = ("_entry", "_journal", "_loop", "_since_s")

    def __init__(self, entry: Entry, journal: Journal) -> None:
        self._entry = entry
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._since_s = self._loop.time()

    def complete(self, response: Message | None) -> None:
        """The answer is known; None: there is none."""
        entry = self._entry
        entry.duration_ms = self._took_ms()
        if entry.recording is not None:
            entry.recording.answered_before = self._journal.last_number
            if response is not None:
                entry.recording.given = given_by(response)
        code = None if response is None else first_error(response)
        if code is None:
            return
        entry.error = code.name
        if entry.transactional_id is not None:
            logger.info(
                "transactional request refused api=%s transactional_id=%s client_id=%s error=%s",
                entry.api,
                entry.transactional_id,
                entry.client_id,
                entry.error,
            )

    def on_sent(self, size_bytes: int) -> None:
        """The answer is sent."""
        self._entry.answer_size_bytes = size_bytes

    def close(self) -> None:
        """There will be no answer."""
        entry = self._entry
        entry.error, entry.duration_ms = UNANSWERED, self._took_ms()
        if entry.recording is not None:
            entry.recording.answered_before = self._journal.last_number

    def on_end(self, ended: "asyncio.Future[Message | None]") -> None:
        """The answer that was waited for is known, or given up."""
        if ended.cancelled() or ended.exception() is not None:
            self.close()
        else:
            self.complete(ended.result())

    def _took_ms(self) -> float:
        return round((self._loop.time() - self._since_s) * MS_PER_S, 3)


def first_error(struct: Struct) -> ErrorCode | None:
    """The first error in a response, if there is any."""
    for name in CODES:
        code = getattr(struct, name, ErrorCode.NONE)
        if code:
            return ErrorCode(code)
    for name in _lists_with_codes(type(struct)):
        for element in getattr(struct, name) or ():
            found = first_error(element)
            if found is not None:
                return found
    return None


@cache
def _lists_with_codes(struct: type[Struct]) -> tuple[str, ...]:
    """The lists whose elements have errors, or have lists whose elements do."""
    return tuple(
        field.name
        for field in struct.FIELDS
        if isinstance(field.type, ArrayOf) and _may_have_code(field.type.element)
    )


def _may_have_code(element: FieldType) -> bool:
    if isinstance(element, str | ArrayOf):
        return False
    has_own = any(field.name in CODES for field in element.FIELDS)
    return has_own or bool(_lists_with_codes(element))
