"""Sends the requests of a journal to brokers, and compares the errors in their answers.

A request is sent once everything has been answered that had been answered when it was recorded. So
what a client did because of an answer comes after that answer, and what was under way at the same
time is again. Connections are not those that were recorded: each request takes an idle one, only
the Produce requests of a client share one, so that their order stays.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek.broker.faults.notes import first_error
from odradek.broker.journal.journal import UNANSWERED
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.framing import read_client_id
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.schema import Message

from .replay_file import Recorded
from .replay_ids import Ids
from .replay_link import Link, decoded

PRODUCE_KEY: Final = 0
METADATA_VERSION, TOPIC_IDS_VERSION = 1, 10
TRANSIENT: Final = frozenset(
    {
        "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "NOT_COORDINATOR",
        "CONCURRENT_TRANSACTIONS",
    }
)
"""What coordinators answer, without an effect, while they are made or finish something. A client
asks again, and may have had to do so less often when it was recorded."""
PATIENCE_S: Final = 15.0
"""For so long in all, requests with such answers are sent again."""
PAUSE_S: Final = 0.1
TIMED_OUT: Final = "no answer in time"
MS_PER_S: Final = 1000
Address = tuple[str, int]


@dataclass(slots=True)
class Outcome:
    """What became of a replay."""

    sent: int = 0
    different: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Requests that could not be sent, by the reason."""


class Replay:
    """The replay of one journal."""

    def __init__(
        self,
        servers: Sequence[Address],
        *,
        open_link: Callable[[str, int], Awaitable[Link]],
        timeout_s: float,
        as_recorded: bool,
        say: Callable[[str], None],
    ) -> None:
        self._servers = servers
        self._bootstrap = servers[0]
        """The first one that answers."""
        self._open = open_link
        self._timeout_s = timeout_s
        self._as_recorded = as_recorded
        self._say = say
        self._patience_s = PATIENCE_S
        self._ids = Ids()
        self._addresses: dict[int, Address] = {}
        self._last_versions: dict[int, tuple[int, int]] = {}
        self._idle: dict[Address, list[Link]] = {}
        self._of_producers: dict[tuple[Address, str | None], Link] = {}
        self._links: list[Link] = []
        self._outcome = Outcome()

    async def run(self, requests: Sequence[Recorded]) -> Outcome:
        """Send the requests.  Raises: OSError: no broker can be reached."""
        try:
            await self._look()
            await self._send_all(requests)
        finally:
            for link in self._links:
                await link.close()
        return self._outcome

    async def _look(self) -> None:
        """Which brokers there are, and which versions they have."""
        versions = await self._ask_any(ApiVersionsRequest(), 0)
        self._last_versions = {
            each.api_key: (each.min_version, each.max_version)
            for each in versions.api_keys  # type: ignore[attr-defined]
        }
        metadata = await self._own(MetadataRequest(topics=[]), METADATA_VERSION)
        self._addresses = {
            each.node_id: (each.host, each.port)
            for each in metadata.brokers  # type: ignore[attr-defined]
        }

    async def _ask_any(self, request: Message, version: int) -> Message:
        """Ask the brokers for it one after the other.  Raises: OSError."""
        failure: Exception | None = None
        for server in self._servers:
            self._bootstrap = server
            try:
                return await self._own(request, version)
            except (OSError, TimeoutError) as error:
                failure = failure or error
        assert failure is not None
        raise failure

    async def _own(self, request: Message, version: int) -> Message:
        """Ask for something that is not of the journal.  Raises: OSError."""
        link = await self._idle_link(self._bootstrap)
        async with asyncio.timeout(self._timeout_s):
            answer = await link.ask_own(request, version)
        self._idle[self._bootstrap].append(link)
        return answer

    async def _send_all(self, requests: Sequence[Recorded]) -> None:
        loop = asyncio.get_running_loop()
        began_s, began_ms = loop.time(), requests[0].at_ms if requests else 0
        under_way: dict[asyncio.Task[None], Recorded] = {}
        for recorded in requests:
            if not self._can_send(recorded):
                continue
            before = [task for task, each in under_way.items() if _is_before(each, recorded)]
            if before:
                await asyncio.wait(before)
            for task in [task for task in under_way if task.done()]:
                under_way.pop(task)
                task.result()
            if self._as_recorded:
                due_s = began_s + (recorded.at_ms - began_ms) / MS_PER_S
                await asyncio.sleep(max(0.0, due_s - loop.time()))
            await self._find_topics(recorded)
            link = await self._link_for(recorded)
            under_way[asyncio.create_task(self._exchange(recorded, link))] = recorded
            self._outcome.sent += 1
        for task in under_way:
            await task

    def _can_send(self, recorded: Recorded) -> bool:
        key, version = recorded.api.key, recorded.version
        first, last = self._last_versions.get(key, (0, -1))
        if not first <= version <= last:
            self._outcome.left_out[f"{recorded.api.name} v{version}, which it does not have"] += 1
            return False
        return True

    async def _find_topics(self, recorded: Recorded) -> None:
        """Learn the ids that topics have here."""
        missing = {
            name: bytes.fromhex(topic_id)
            for topic_id, name in recorded.topic_ids.items()
            if bytes.fromhex(topic_id) not in self._ids.topics
        }
        if (
            missing
            and self._last_versions.get(MetadataRequest.API_KEY, (0, 0))[1] >= TOPIC_IDS_VERSION
        ):
            topics = [MetadataRequestTopic(name=name) for name in missing]
            request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
            for topic in (await self._own(request, TOPIC_IDS_VERSION)).topics:  # type: ignore[attr-defined]
                if topic.error_code == 0:
                    self._ids.topics[missing[topic.name]] = topic.topic_id

    async def _link_for(self, recorded: Recorded) -> Link:
        address = self._addresses.get(recorded.broker, self._bootstrap)
        if recorded.api.key != PRODUCE_KEY:
            return await self._idle_link(address)
        producer = address, recorded.client_id
        if producer not in self._of_producers or self._of_producers[producer].is_lost:
            self._of_producers[producer] = await self._new_link(address)
        return self._of_producers[producer]

    async def _idle_link(self, address: Address) -> Link:
        idle = self._idle.setdefault(address, [])
        while idle:
            link = idle.pop()
            if link.is_idle:
                return link
        return await self._new_link(address)

    async def _new_link(self, address: Address) -> Link:
        async with asyncio.timeout(self._timeout_s):
            link = await self._open(*address)
        self._links.append(link)
        return link

    async def _exchange(self, recorded: Recorded, link: Link) -> None:
        """Send a request, wait for its answer, and say what is different."""
        request, header_bytes = _request(recorded)
        given = recorded.given
        self._ids.replace(request)
        frame = recorded.frame[:header_bytes] + bytes(request.encode(recorded.version))
        if recorded.api.key == PRODUCE_KEY and request.acks == 0:  # type: ignore[attr-defined]
            link.tell(frame)
            return
        try:
            response = await self._answer(recorded, link, frame)
        except TimeoutError:
            error: str | None = TIMED_OUT
        except (OSError, MalformedMessage):
            error = UNANSWERED
        else:
            error = _error_of(response)
            self._ids.learn(request, given, response)
            if recorded.api.key != PRODUCE_KEY:
                address = self._addresses.get(recorded.broker, self._bootstrap)
                self._idle.setdefault(address, []).append(link)
        self._compare(recorded, error)

    async def _answer(self, recorded: Recorded, link: Link, frame: bytes) -> Message:
        """The answer, once it is none that only asks for patience.

        Raises: OSError, MalformedMessage, TimeoutError.
        """
        while True:
            async with asyncio.timeout(self._timeout_s):
                answer = await link.ask(frame)
            response = decoded(recorded.api.key, recorded.version, answer)
            error = _error_of(response)
            if error == recorded.error or error not in TRANSIENT or self._patience_s <= 0:
                return response
            self._patience_s -= PAUSE_S
            await asyncio.sleep(PAUSE_S)

    def _compare(self, recorded: Recorded, error: str | None) -> None:
        if recorded.error == UNANSWERED and not recorded.by_rule:
            return  # the connection was closed first, by the client perhaps
        if error != recorded.error:
            self._outcome.different += 1
            by_rule = ", by a rule for faults" if recorded.by_rule else ""
            was = recorded.error or "no error"
            self._say(f"{recorded}: {error or 'no error'} (recorded: {was}{by_rule})")
        elif error is not None:
            self._say(f"{recorded}: {error} (as recorded)")


def _is_before(earlier: Recorded, recorded: Recorded) -> bool:
    """Whether this had been answered when the other one came."""
    return earlier.answered_before is not None and earlier.answered_before < recorded.number


def _error_of(response: Message) -> str | None:
    code = first_error(response)
    return None if code is None else code.name


def _request(recorded: Recorded) -> tuple[Message, int]:
    """The request, and the size of its header."""
    flexible = recorded.version >= recorded.api.flexible
    _, position = read_client_id(recorded.frame, flexible=flexible)
    request, _ = recorded.api.request.decode(recorded.frame, recorded.version, position)
    return request, position


def left_out_sentence(left_out: Iterable[tuple[str, int]]) -> str:
    """What was not sent, and why."""
    return ", ".join(f"{count} of {reason}" for reason, count in left_out)
