"""Fetching from one leader: all that this broker follows of it, or a share, over one connection.

Each round fetches from the ends of the logs, in the leader epoch that this broker knows. The
records are appended. Where the logs diverge, this broker's log is cut, and the next round fetches
again. Partitions with an error are left out for `replica.fetch.backoff.ms`.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from odradek.protocol.errors import ErrorCode, error_name
from odradek.protocol.messages.k01_fetch import FetchRequest, FetchResponse, PartitionData
from odradek.protocol.messages.k02_list_offsets import ListOffsetsRequest, ListOffsetsResponse

from ..core.partition_state import TopicPartition
from ..peers.addresses import Peers
from ..peers.peer import Peer, PeerFailed
from ..peers.trouble import Trouble
from ..peers.versions import InterBrokerVersions
from .asking import fetch_request
from .following import Following
from .repair import Repair
from .session import SESSION_ERRORS, FetcherSession, Key, Telling
from .taking import Taking, UnexpectedStart

if TYPE_CHECKING:
    from ..local_broker import LocalBroker

logger = logging.getLogger(__name__)

LOOK_MS: Final = 100
"""How often all followed partitions are looked at; otherwise only those of the last answer."""
UNTOLD_START_WAIT_MS: Final = 50
"""The longest time that a leader may wait for records while this broker must report a new log start
once a checkpoint contains it. A DeleteRecords may be waiting for that."""
HASTY_MAX: Final = 20
"""How many empty answers in a row may come at once."""
_UNTOLD: Final = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""The leader and this broker learn of a new leader at different times: usual, and soon over."""
_UNTOLD_AT_FIRST: Final = _UNTOLD | {
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""Also usual for a topic that is being created or deleted, but not twice in one epoch."""


class Fetcher:
    """One connection to a leader; `run` until nothing is followed any more."""

    def __init__(
        self,
        local: "LocalBroker",
        peers: Peers,
        versions: InterBrokerVersions,
        leader_id: int,
        index: int,
    ) -> None:
        self.followed: dict[TopicPartition, Following] = {}
        self._local = local
        self._config = local.config
        self._clock = local.clock
        self._peers = peers
        self._versions = versions
        self._leader_id = leader_id
        self._client_id = f"broker-{local.broker_id}-fetcher-{index}"
        self._peer: Peer | None = None
        self._session = FetcherSession()
        self._sent: dict[Key, Following] = {}
        """The partitions that the session fetches."""
        self._answered: list[Key] = []
        """The partitions of the last answer, and those whose start the leader does not know yet;
        nothing has changed for the others."""
        self._look_at_ms = 0
        """When all followed partitions are looked at again."""
        self._is_by_id = False
        self._changed = asyncio.Event()
        self._trouble = Trouble()
        self._hasty_count = 0
        self._repair = Repair(local, self.follows, self.delay)
        self._throttles = local.throttles

    # Called by the replicator.

    def follow(self, followings: Iterable[Following]) -> None:
        """Fetch these too, or in a new epoch."""
        self.followed.update((following.key, following) for following in followings)
        self.retry()

    def forget(self, key: TopicPartition) -> None:
        """Stop fetching it."""
        self.followed.pop(key, None)
        self._look_at_ms = 0

    def delay(self, following: Following) -> None:
        """Leave it out for a while because something is wrong with it."""
        following.delayed_until_ms = self._clock.now_ms() + self._config.replica_fetch_backoff_ms
        self._look_at_ms = 0

    def retry(self) -> None:
        """Try again now: the leader may be reachable, or have a new address."""
        self._look_at_ms = 0
        self._changed.set()

    # Running.

    async def run(self) -> None:
        """Fetch forever."""
        try:
            while True:
                if self._must_look and not await self._look():
                    continue
                try:
                    await self._round()
                except PeerFailed as failed:
                    self._failed()
                    self._note(str(failed))
                    await self._pause(self._config.replica_fetch_backoff_ms)
        finally:
            self._hang_up()

    @property
    def _must_look(self) -> bool:
        """Whether there may be changes beyond the last answer."""
        return self._clock.now_ms() >= self._look_at_ms

    async def _look(self) -> bool:
        """Look for what to fetch; False, possibly after a pause: nothing, so look again."""
        self._changed.clear()
        due = self._due()
        wanted = [f for f in due if not self._throttles.leaves_out(f.partition, f.lag)]
        if not wanted:
            backoff_ms = self._config.replica_fetch_backoff_ms
            await self._pause(backoff_ms if due else self._next_due_ms())
            return False
        return await self._choose(wanted)

    async def _choose(self, wanted: list[Following]) -> bool:
        """Fetch these from now on, if they are ready; whether any is."""
        self._look_at_ms = self._clock.now_ms() + LOOK_MS
        await self._repair.prepare(wanted)
        ready = [f for f in wanted if f.is_prepared and self.follows(f)]
        if not ready:
            self._look_at_ms = 0
            return False
        self._is_by_id = all(f.has_id for f in ready)
        self._sent = {(f.topic_id if self._is_by_id else f.key[0], f.key[1]): f for f in ready}
        self._answered = list(self._sent)
        return True

    def _failed(self, code: int = ErrorCode.NONE) -> None:
        """Note that the request has failed: the next one names everything again."""
        self._session.failed(code)
        self._look_at_ms = 0

    def _due(self) -> list[Following]:
        """What to fetch unless it is throttled; drops what is no longer followed."""
        now_ms = self._clock.now_ms()
        gone = [key for key, following in self.followed.items() if not self.follows(following)]
        for key in gone:
            del self.followed[key]
        return [f for f in self.followed.values() if f.delayed_until_ms <= now_ms]

    def follows(self, following: Following) -> bool:
        """Whether it is still to be fetched; checked after each point where other tasks may have
        run."""
        key = following.key
        return (
            self.followed.get(key) is following
            and following.is_current
            and self._local.replicas.partitions.get(key) is following.partition
        )

    def _next_due_ms(self) -> int | None:
        due_ms = min((f.delayed_until_ms for f in self.followed.values()), default=None)
        return None if due_ms is None else max(1, due_ms - self._clock.now_ms())

    async def _pause(self, pause_ms: int | None) -> None:
        """Wait until something has changed, or the time is up."""
        try:
            async with asyncio.timeout(None if pause_ms is None else pause_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _round(self) -> None:
        """Raises: PeerFailed."""
        telling = self._tell()
        version = self._versions.fetch if self._is_by_id else self._versions.fetch_by_name
        request = fetch_request(
            telling,
            self._session.told,
            self._config,
            max_wait_ms=self._max_wait_ms(),
            broker_id=self._local.broker_id,
            broker_epoch=self._local.broker_epoch,
        )
        asked_ms = self._clock.now_ms()
        response = await self._open_peer().ask(request, version)
        assert isinstance(response, FetchResponse)
        if response.error_code:
            self._refused(response.error_code, telling)
            return
        self._session.answered(response.session_id)
        is_hasty = self._is_hasty(request, response, self._clock.now_ms() - asked_ms)
        self._note("it does not wait before it answers nothing" if is_hasty else "")
        await self._take(response)
        if is_hasty:
            await self._pause(self._config.replica_fetch_backoff_ms)

    def _is_hasty(self, request: FetchRequest, response: FetchResponse, took_ms: int) -> bool:
        """Whether the leader repeatedly returns empty answers without waiting."""
        is_early = not response.responses and 2 * took_ms < request.max_wait_ms
        self._hasty_count = self._hasty_count + 1 if is_early else 0
        return self._hasty_count > HASTY_MAX and request.min_bytes > 0

    # Handling the answer.

    def _refused(self, code: int, telling: Telling) -> None:
        """Handle the refusal of a whole request. An unknown session is reopened at once.

        Raises: PeerFailed.
        """
        self._failed(code)
        if code not in SESSION_ERRORS or telling.is_full:
            raise PeerFailed(f"broker {self._leader_id} refuses a Fetch: {error_name(code)}")

    async def _take(self, response: FetchResponse) -> None:
        """Append first, because the next request discards the records; then repair.

        Raises: PeerFailed.
        """
        taking, repair = Taking(self._local, self.follows), self._repair
        repair.begin()
        self._answered = [key for key in self._answered if self._has_untold_start(key)]
        failed: dict[tuple[int, bool], list[TopicPartition]] = {}
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic or topic.topic_id), data.partition_index
                following = self._sent.get(key)
                if following is None or not self.follows(following):
                    self._look_at_ms = 0
                    continue
                self._answered.append(key)
                if data.error_code:
                    usual = _UNTOLD if following.delayed_until_ms else _UNTOLD_AT_FIRST
                    is_news = following.is_news(error_name(data.error_code), self._clock.now_ms())
                    is_usual = data.error_code in usual or not is_news
                    failed.setdefault((data.error_code, is_usual), []).append(following.key)
                    self._not_given(following, data.error_code)
                elif data.diverging_epoch.epoch >= 0:
                    repair.diverging(following, data.diverging_epoch)
                    self._look_at_ms = 0
                elif following.partition.log.log_end_offset == self._session.told[key][1]:
                    await self._append(taking, following, data)
        for (code, is_usual), keys in failed.items():
            self._say_failed(code, keys, is_usual=is_usual)
        await taking.flush()
        await repair.run(self._ask_offsets)

    async def _append(self, taking: Taking, following: Following, data: PartitionData) -> None:
        try:
            has_taken = await taking.take(following, data)
        except UnexpectedStart as error:
            self._look_at_ms = 0
            begins = await self._repair.begin_at(following, error.offset)
            has_taken = begins and await taking.take(following, data)
        if not has_taken:
            self.delay(following)
            return
        following.note_lag(data.high_watermark, has_records=bool(data.records))
        if self._throttles.fetched(following.partition, len(data.records or b"")):
            self._look_at_ms = 0
        if data.records and self.followed.get(following.key) is following:
            self.followed[following.key] = self.followed.pop(following.key)  # it had its turn

    def _not_given(self, following: Following, code: int) -> None:
        self._look_at_ms = 0
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._repair.out_of_range(following)
        elif code == ErrorCode.FENCED_LEADER_EPOCH:  # the controller will announce a later one
            self.forget(following.key)
        else:
            self.delay(following)

    def _say_failed(self, code: int, keys: list[TopicPartition], *, is_usual: bool) -> None:
        """Log one line, as all partitions may be affected: a leader learns late of a new topic."""
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return
        logger.log(
            logging.DEBUG if is_usual else logging.WARNING,
            "replicas not fetched leader=%d error=%s count=%d topic=%s partition=%d",
            self._leader_id,
            error_name(code),
            len(keys),
            *keys[0],
        )

    async def _ask_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        """Raises: PeerFailed."""
        response = await self._open_peer().ask(request, self._versions.list_offsets)
        assert isinstance(response, ListOffsetsResponse)
        return response

    # Building the request.

    def _tell(self) -> Telling:
        """What the next request says: of all partitions, or of those that were answered."""
        said = {key: self._said(self._sent[key]) for key in self._answered}
        if len(said) == len(self._sent):
            return self._session.tell(said, by_id=self._is_by_id)
        return self._session.tell_again(said)

    def _said(self, following: Following) -> tuple[int, ...]:
        log = following.partition.log
        return (
            following.leader_epoch,
            log.log_end_offset,
            log.epochs.latest,
            log.flushing.safe_start_offset(log),
            self._config.replica_fetch_max_bytes,
        )

    def _has_untold_start(self, key: Key) -> bool:
        """Whether the log start is later than the leader was told: no checkpoint had it yet."""
        *_, told, _ = self._session.told[key]
        return told < self._sent[key].partition.log.log_start_offset

    def _max_wait_ms(self) -> int:
        """How long the leader may wait for news, given what it was told of the logs."""
        wait_ms = self._config.replica_fetch_wait_max_ms
        if any(self._has_untold_start(key) for key in self._answered):
            return min(wait_ms, UNTOLD_START_WAIT_MS)
        return wait_ms

    def _open_peer(self) -> Peer:
        """Raises: PeerFailed."""
        address = self._peers.address(self._leader_id)
        peer = self._peer
        if peer is None or (peer.host, peer.port) != (address.host, address.port):
            self._hang_up()
            peer = self._peer = self._peers.open(
                address,
                client_id=self._client_id,
                timeout_ms=self._config.replica_socket_timeout_ms,
            )
        return peer

    def _hang_up(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    def _note(self, trouble: str) -> None:
        if not trouble:
            if self._trouble.ends():
                logger.info("leader answers fetches again leader=%d", self._leader_id)
            return
        is_said = self._trouble.begins(self._clock.now_ms())
        level = logging.WARNING if is_said else logging.DEBUG
        logger.log(level, "fetch from leader failed leader=%d reason=%s", self._leader_id, trouble)
