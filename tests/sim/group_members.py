"""Members of a classic group that live through crashes, and what must be true of what they saw."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final, Protocol

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import (
    FindCoordinatorRequest,
)
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.schema import Message
from tests.broker.group_requests import commit, fetch_offsets, join, leave, sync

from .client import Client
from .loop import SimLoop
from .process import HOST
from .runtime import SimClock

GROUP: Final = "g"
TOPIC: Final = "events"
SESSION_MS: Final = 1_000
REBALANCE_MS: Final = 20_000  # as tests.broker.group_requests asks for
RETRY_S: Final = 0.05
ASKS_MAX: Final = 200
STALLS: Final = 0.1
WAIT_SLACK_MS: Final = 2_000
# Flexible versions, as the simulator's client speaks them.
FIND, JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, FETCH = 3, 6, 4, 4, 4, 8, 7

REJOIN: Final = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)
LATER: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})
LATER_IN_CLUSTER: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT, *LATER}
)
"""An append may also find too few replicas, or wait too long for them."""
ELSEWHERE: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Brokers(Protocol):
    """One broker, or several."""

    @property
    def port(self) -> int:
        """Where one of them takes clients."""
        ...

    @property
    def clock(self) -> SimClock:
        """The clock of all."""
        ...


class Rejoin(Exception):
    """The member is none of the current generation any more."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code)
        self.code = code


class GroupHistory:
    """What members were told."""

    def __init__(self, partitions: int, *, in_cluster: bool = False) -> None:
        """`in_cluster`: a broker may answer that does not know yet that another coordinates."""
        self.partitions = range(partitions)
        self.may_be_stale = in_cluster
        self.later = LATER_IN_CLUSTER if in_cluster else LATER
        """What members may be told that is no fault, and asks them to come again."""
        self.owners: dict[tuple[int, int], str] = {}
        """Who was given a partition in a generation."""
        self.committed = dict.fromkeys(self.partitions, 0)
        """What is known to be committed: acknowledged, or read by somebody."""
        self.generations: set[int] = set()
        self.is_over = False

    def note_assignment(self, generation_id: int, name: str, partitions: list[int]) -> None:
        """A member was given partitions."""
        self.generations.add(generation_id)
        for partition in partitions:
            owner = self.owners.setdefault((generation_id, partition), name)
            assert owner == name, f"{partition} of {generation_id}: {owner} and {name}"

    def note_committed(self, partition: int, offset: int, at_least: int) -> None:
        """A position was read that must not lie before what was known when it was asked for."""
        is_back = offset < at_least and not self.may_be_stale
        assert not is_back, f"{partition} went back from {at_least} to {offset}"
        self.committed[partition] = max(self.committed[partition], offset)


class Member:
    """One consumer: joins, takes what it is given, commits, leaves or vanishes, and comes again."""

    def __init__(
        self,
        loop: SimLoop,
        brokers: Brokers,
        history: GroupHistory,
        name: str,
        *,
        slack_ms: int = WAIT_SLACK_MS,
    ) -> None:
        """`slack_ms`: how much later than the timeouts say an answer may come."""
        self._loop = loop
        self._brokers = brokers
        self._slack_ms = slack_ms
        self._history = history
        self._name = name
        self._life = 0
        self._member_id = ""
        self._generation_id = -1

    async def live(self) -> None:
        """Until the history is over."""
        while not self._history.is_over:
            with contextlib.suppress(ConnectionError, TimeoutError):
                port = await self._coordinator_port()
                if port is not None:
                    async with await Client.connect(port, HOST) as client:
                        await self._session(client)
            await asyncio.sleep(RETRY_S)

    async def _coordinator_port(self) -> int | None:
        async with await Client.connect(self._brokers.port, HOST) as client:
            found = await client.ask(FindCoordinatorRequest(key=GROUP), FIND)
        return None if found.error_code else int(found.port)

    async def _session(self, client: Client) -> None:
        while not self._history.is_over:
            try:
                partitions = await self._join(client)
                await self._consume(client, partitions)
            except Rejoin as rejoin:
                if rejoin.code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._begin_anew()
                await asyncio.sleep(RETRY_S)
                if rejoin.code in ELSEWHERE:
                    return
                continue
            if await self._end_this_life(client):
                return

    async def _end_this_life(self, client: Client) -> bool:
        """Leave, vanish, or merely lose the connection; True: the connection is given up."""
        kind = self._loop.random.choice(("leave", "vanish", "reconnect", "stall"))
        if kind == "leave":
            await client.ask(leave(GROUP, self._member_id), LEAVE)
            self._begin_anew()
        elif kind == "vanish":
            self._begin_anew()
        elif kind == "stall":
            await asyncio.sleep(SESSION_MS * 1.5 / 1000)
            return False
        return True

    def _begin_anew(self) -> None:
        self._member_id, self._generation_id = "", -1
        self._life += 1

    async def _join(self, client: Client) -> list[int]:
        """Raises: Rejoin."""
        request = join(GROUP, self._member_id, topics=[TOPIC], session_ms=SESSION_MS)
        joined = await self._timed(client, request, JOIN)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
        self._check(joined.error_code)
        self._member_id, self._generation_id = joined.member_id, joined.generation_id
        shares = self._shares([member.member_id for member in joined.members])
        request_sync = sync(GROUP, self._generation_id, self._member_id, shares)
        synced = await self._timed(client, request_sync, SYNC)
        self._check(synced.error_code)
        partitions = list(synced.assignment)
        owner = f"{self._name}.{self._life}"
        self._history.note_assignment(self._generation_id, owner, partitions)
        return partitions

    def _shares(self, member_ids: list[str]) -> Mapping[str, bytes]:
        """As leader: who gets which partitions, one byte each."""
        self._loop.random.shuffle(member_ids)
        return {
            member_id: bytes(p for p in self._history.partitions if p % len(member_ids) == place)
            for place, member_id in enumerate(member_ids)
        }

    async def _timed(self, client: Client, request: Message, version: int) -> Any:
        """Ask for what may have to wait for others, but not for ever."""
        began_ms = self._brokers.clock.now_ms()
        response = await client.ask(request, version)
        waited_ms = self._brokers.clock.now_ms() - began_ms
        assert waited_ms <= REBALANCE_MS + SESSION_MS + self._slack_ms, waited_ms
        return response

    async def _consume(self, client: Client, partitions: list[int]) -> None:
        """Take positions and move them on, for a while.  Raises: Rejoin."""
        positions = await self._positions(client)
        for _ in range(self._loop.random.randint(1, 8)):
            await asyncio.sleep(self._loop.random.uniform(0.01, 0.3))
            await self._heartbeat(client)
            if self._loop.random.random() < STALLS:
                await asyncio.sleep(SESSION_MS * 1.5 / 1000)  # what comes next may be fenced
            moved = {p: positions[p] + self._loop.random.randint(1, 5) for p in partitions}
            if moved:
                await self._commit(client, moved)
                positions.update(moved)

    async def _positions(self, client: Client) -> dict[int, int]:
        """What is committed.  Raises: Rejoin."""
        known = dict(self._history.committed)
        answer = await client.ask(fetch_offsets(GROUP, TOPIC, *self._history.partitions), FETCH)
        self._check(answer.error_code)
        positions = {}
        for topic in answer.topics:
            for found in topic.partitions:
                self._check(found.error_code)
                offset = max(0, found.committed_offset)
                self._history.note_committed(
                    found.partition_index, offset, known[found.partition_index]
                )
                positions[found.partition_index] = offset
        return positions

    async def check_committed(self) -> None:
        """Whatever was known to be committed still is; nobody is stale any more."""
        self._history.may_be_stale = False
        for _ in range(ASKS_MAX):
            port = await self._coordinator_port()
            if port is not None:
                async with await Client.connect(port, HOST) as client:
                    try:
                        await self._positions(client)
                        return
                    except Rejoin as rejoin:  # leaders may still be rebalanced
                        if rejoin.code not in self._history.later:
                            raise
            await asyncio.sleep(RETRY_S)
        raise AssertionError("nobody coordinates the group")

    async def _heartbeat(self, client: Client) -> None:
        request = HeartbeatRequest(
            group_id=GROUP, member_id=self._member_id, generation_id=self._generation_id
        )
        self._check((await client.ask(request, HEARTBEAT)).error_code)

    async def _commit(self, client: Client, offsets: Mapping[int, int]) -> None:
        is_old = self._generation_id < max(self._history.generations)
        request = commit(
            GROUP,
            TOPIC,
            offsets,
            generation_id=self._generation_id,
            member_id=self._member_id,
        )
        answer = await client.ask(request, COMMIT)
        codes = {p.error_code for topic in answer.topics for p in topic.partitions}
        for code in codes:
            self._check(code)
        assert not is_old, f"{self._name} has committed in generation {self._generation_id}"
        for partition, offset in offsets.items():
            self._history.note_committed(partition, offset, 0)

    def _check(self, code: int) -> None:
        """Raises: Rejoin for what a client answers by joining again; anything else is a fault."""
        if code == ErrorCode.NONE:
            return
        expected = REJOIN | self._history.later | {ErrorCode.MEMBER_ID_REQUIRED}
        assert code in expected, ErrorCode(code).name
        raise Rejoin(ErrorCode(code))
