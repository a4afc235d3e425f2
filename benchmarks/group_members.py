"""Members of groups that do nothing but be there: what that costs, and how fast they gather."""

import asyncio
import time
from collections.abc import Iterator
from typing import Final

import psutil

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from tests.broker.group_requests import join, sync
from tests.support.client import Client

from .connection import Address
from .ground import Finding, Ground

GROUPS: Final = 200
MEMBERS: Final = 5
HEARTBEAT_INTERVAL_S: Final = 3.0  # the default of every client
MEASURED_S: Final = 15.0
LARGE_GROUP: Final = 100
AT_ONCE: Final = {"ODRADEK_GROUP_INITIAL_REBALANCE_DELAY_MS": "0"}


class Member:
    """One member on a connection of its own."""

    def __init__(self, client: Client, group_id: str) -> None:
        self.client = client
        self.group_id = group_id
        self.member_id = ""
        self.generation_id = -1

    async def join(self) -> None:
        """Join and sync, again and again until the group is of one mind."""
        while True:
            joined = await self.client.ask(join(self.group_id, self.member_id), 5)
            self.member_id = joined.member_id
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                continue
            assert joined.error_code == 0, joined
            shares = {member.member_id: b"" for member in joined.members}
            request = sync(self.group_id, joined.generation_id, self.member_id, shares)
            synced = await self.client.ask(request, 3)
            if synced.error_code == 0:
                self.generation_id = joined.generation_id
                return
            assert synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS, synced

    async def heartbeat(self) -> None:
        """Say that it is there; join again if the others demand it."""
        request = HeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, generation_id=self.generation_id
        )
        code = (await self.client.ask(request, 3)).error_code
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            await self.join()
        else:
            assert code == 0, code

    async def live(self, first_s: float) -> None:
        """Heartbeat for ever, the first time after `first_s`."""
        await asyncio.sleep(first_s)
        while True:
            await self.heartbeat()
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)


async def _members(address: Address, names: list[str]) -> list[Member]:
    finder = await Client.connect(address.port, address.host)
    await finder.ask(FindCoordinatorRequest(key=names[0]), 3)
    await finder.close()
    return [Member(await Client.connect(address.port, address.host), name) for name in names]


async def _close(members: list[Member]) -> None:
    for member in members:
        await member.client.close()


async def _cost_of_heartbeats(address: Address, pid: int) -> float:
    """The part of one core that the broker needs."""
    members = await _members(address, [f"g{i}" for i in range(GROUPS) for _ in range(MEMBERS)])
    await asyncio.gather(*(member.join() for member in members))
    spread = HEARTBEAT_INTERVAL_S / len(members)
    lives = [asyncio.create_task(member.live(i * spread)) for i, member in enumerate(members)]
    await asyncio.sleep(2 * HEARTBEAT_INTERVAL_S)  # until nobody is called to join any more
    broker = psutil.Process(pid)
    before, began_s = broker.cpu_times(), time.monotonic()
    await asyncio.sleep(MEASURED_S)
    after, ended_s = broker.cpu_times(), time.monotonic()
    for life in lives:
        life.cancel()
    await asyncio.gather(*lives, return_exceptions=True)
    await _close(members)
    spent_s = after.user + after.system - before.user - before.system
    return spent_s / (ended_s - began_s)


async def _time_to_gather(address: Address) -> float:
    """Seconds from the first join to the last assignment."""
    members = await _members(address, ["large"] * LARGE_GROUP)
    began_s = time.monotonic()
    lives = [asyncio.create_task(_settle(member)) for member in members]
    while not _is_of_one_mind(members):  # noqa: ASYNC110  # nobody tells when the last is there
        await asyncio.sleep(0.01)
    ended_s = time.monotonic()
    for life in lives:
        life.cancel()
    await asyncio.gather(*lives, return_exceptions=True)
    await _close(members)
    return ended_s - began_s


def _is_of_one_mind(members: list[Member]) -> bool:
    generations = {member.generation_id for member in members}
    return len(generations) == 1 and generations.pop() > 0


async def _settle(member: Member) -> None:
    while True:
        await member.join()
        code = ErrorCode.NONE
        while code == ErrorCode.NONE:
            await asyncio.sleep(0.1)
            request = HeartbeatRequest(
                group_id=member.group_id,
                member_id=member.member_id,
                generation_id=member.generation_id,
            )
            code = ErrorCode((await member.client.ask(request, 3)).error_code)


def heartbeats(ground: Ground) -> Iterator[Finding]:
    """Many small groups that are at rest."""
    with ground.broker(env=AT_ONCE) as broker:
        cost = asyncio.run(_cost_of_heartbeats(broker.address, broker.process.pid))
    name = f"{GROUPS} groups of {MEMBERS} heartbeating, of one core"
    yield Finding(name, 100 * cost, "%", 15)


def large_group(ground: Ground) -> Iterator[Finding]:
    """Many members that come at the same time."""
    with ground.broker(env=AT_ONCE) as broker:
        seconds = asyncio.run(_time_to_gather(broker.address))
    yield Finding(f"{LARGE_GROUP} members gather in one group", seconds, "s", 1)
