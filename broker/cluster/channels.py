"""One serial channel from the controller to each live broker; requests are sent in queue order.

One request is in flight at a time. Without an answer it is sent again every 100 ms, until there is
one or the broker is gone. So each broker learns of the controller's decisions in order.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k04_leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from odradek.protocol.messages.k05_stop_replica import StopReplicaRequest, StopReplicaResponse
from odradek.protocol.messages.k06_update_metadata import UpdateMetadataResponse
from odradek.protocol.schema import Message

from ..core.controller.context import LiveBroker
from ..core.controller.requests import BrokerRequests
from ..member.control_messages import ControlRequest
from ..peers.peer import PeerFailed
from ..peers.versions import InterBrokerVersions
from ..tasks import TaskSupervisor
from .broker_requests import (
    ActiveController,
    Errors,
    build_requests,
    deletion_errors,
    leader_and_isr_errors,
)

logger = logging.getLogger(__name__)

RETRY_BACKOFF_S: Final = 0.1
LONG_QUEUE: Final = 100
_RESPONSES: Final = (LeaderAndIsrResponse, UpdateMetadataResponse, StopReplicaResponse)


class ControlLink(Protocol):
    """A connection to one broker, for control requests."""

    async def ask(self, request: Message, version: int) -> Message:
        """Send a request and return the response.  Raises: PeerFailed."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


Links = Callable[[LiveBroker], ControlLink]


class Answers(Protocol):
    """Receives brokers' answers, with the registration (broker epoch) that was asked."""

    def leader_and_isr_answered(self, broker: LiveBroker, errors: Errors) -> None:
        """Called with the error code of each partition in a LeaderAndIsr response."""

    def deletions_answered(self, broker: LiveBroker, errors: Errors) -> None:
        """Called with the error code of each replica that the broker was asked to delete."""


class Channels:
    """All channels of one controller term."""

    def __init__(
        self,
        links: Links,
        sender: ActiveController,
        versions: InterBrokerVersions,
        answers: Answers,
        tasks: TaskSupervisor,
    ) -> None:
        self._links = links
        self.sender = sender
        self.versions = versions
        self.answers = answers
        self._tasks = tasks
        self._channels: dict[int, Channel] = {}

    def update(self, live: Iterable[LiveBroker]) -> None:
        """Keep one channel to each of these brokers; a new broker epoch gets a new channel."""
        wanted = {broker.broker_id: broker for broker in live}
        for broker_id, channel in list(self._channels.items()):
            broker = wanted.get(broker_id)
            if broker is None or broker.epoch != channel.broker.epoch:
                self._channels.pop(broker_id).close()
        for broker_id, broker in wanted.items():
            if broker_id not in self._channels:
                channel = Channel(broker, self._links(broker), self)
                self._channels[broker_id] = channel
                channel.task = self._tasks.spawn(channel.run(), f"control broker {broker_id}")

    def send(self, requests: Iterable[BrokerRequests], live: Sequence[LiveBroker]) -> None:
        """Queue requests; those for brokers that are gone are dropped."""
        for asked in requests:
            channel = self._channels.get(asked.broker_id)
            if channel is not None:
                channel.put(asked, live)

    def owes(self, broker_id: int) -> bool:
        """Whether a broker has requests that are queued or unanswered."""
        channel = self._channels.get(broker_id)
        return channel is not None and channel.owes

    async def settled(self, broker_id: int) -> None:
        """Return when a broker has answered everything queued so far, or is gone."""
        channel = self._channels.get(broker_id)
        if channel is not None:
            await channel.settled()

    def close(self) -> None:
        """Close all channels; nothing more is sent."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()


class Channel:
    """Queues the requests for one broker and sends them one at a time."""

    def __init__(self, broker: LiveBroker, link: ControlLink, channels: Channels) -> None:
        self.broker = broker
        self.task: asyncio.Task[None] | None = None
        self._link = link
        self._channels = channels
        self._queue: deque[tuple[BrokerRequests, Sequence[LiveBroker]]] = deque()
        self._filled = asyncio.Event()
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._put_count = self._done_count = 0
        self._is_long = False

    def put(self, asked: BrokerRequests, live: Sequence[LiveBroker]) -> None:
        """Queue requests, with the brokers that are live now."""
        self._queue.append((asked, live))
        self._put_count += 1
        self._filled.set()
        if not self._is_long and len(self._queue) >= LONG_QUEUE:
            self._is_long = True
            logger.warning("broker is slow broker=%d queued=%d", self.broker.broker_id, LONG_QUEUE)

    @property
    def owes(self) -> bool:
        """Whether a request is queued or in flight."""
        return self._done_count < self._put_count

    async def settled(self) -> None:
        """Return when everything queued so far is answered, or the channel is closed."""
        if self.owes:
            told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((self._put_count, told))
            await told

    def close(self) -> None:
        """Close the connection, drop the queue and release `settled`."""
        if self.task is not None:
            self.task.cancel()
        self._link.close()
        self._queue.clear()
        self._done_count = self._put_count
        self._tell_waiters()

    async def run(self) -> None:
        """Send queued requests, forever."""
        while True:
            while not self._queue:
                self._is_long = False
                self._filled.clear()
                await self._filled.wait()
            asked, live = self._queue.popleft()
            for request in build_requests(asked, self._channels.sender, self.broker.epoch, live):
                self._on_answer(request, await self._ask(request))
                await asyncio.sleep(0)
            self._done_count += 1
            self._tell_waiters()

    async def _ask(self, request: ControlRequest) -> Message:
        """Send a request until it is answered; return the answer."""
        version = self._version(request)
        attempts = 0
        while True:
            try:
                return await self._link.ask(request, version)
            except PeerFailed as failed:
                attempts += 1
                if attempts == 1:
                    broker_id = self.broker.broker_id
                    logger.warning("broker not reached broker=%d error=%s", broker_id, failed)
            await asyncio.sleep(RETRY_BACKOFF_S)

    def _version(self, request: ControlRequest) -> int:
        versions = self._channels.versions
        if isinstance(request, LeaderAndIsrRequest):
            return versions.leader_and_isr
        if isinstance(request, StopReplicaRequest):
            return versions.stop_replica
        return versions.update_metadata

    def _on_answer(self, request: ControlRequest, response: Message) -> None:
        answers, broker = self._channels.answers, self.broker
        assert isinstance(response, _RESPONSES)
        if response.error_code != ErrorCode.NONE:
            logger.warning(
                "request refused broker=%d request=%s code=%d",
                broker.broker_id,
                type(request).__name__,
                response.error_code,
            )
        if isinstance(response, LeaderAndIsrResponse):
            assert isinstance(request, LeaderAndIsrRequest)
            if errors := leader_and_isr_errors(request, response):
                answers.leader_and_isr_answered(broker, errors)
        elif isinstance(response, StopReplicaResponse):
            assert isinstance(request, StopReplicaRequest)
            if errors := deletion_errors(request, response):
                answers.deletions_answered(broker, errors)

    def _tell_waiters(self) -> None:
        while self._waiters and self._waiters[0][0] <= self._done_count:
            _, told = self._waiters.popleft()
            if not told.done():
                told.set_result(None)
