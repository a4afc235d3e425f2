"""Random lives of a classic group: clients that join, sync, rejoin, leave and crash, a clock that
jumps, and a log that refuses.

`ODRADEK_SIM_SEED=7 pytest tests/broker/core/groups/test_classic_random.py` runs one seed, a range
1..2000 many.  A failure prints its seed.
"""

import random

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k13_leave_group import MemberIdentity
from tests.seeds import seeds

from .classic_running import JoinWaiting, Running, SyncWaiting

SEEDS = seeds(300, 600)
STEPS = 70
PARTITIONS = 6
APPEND_MS = 5_000
REBALANCE_MS = 20_000
DELAY_MS = 3_000
SESSION_MS = 10_000
WAIT_MS = REBALANCE_MS + DELAY_MS + APPEND_MS
"""Nobody waits longer for an answer."""


class Client:
    """A consumer, as far as the group sees it."""

    def __init__(self, name: str, instance_id: str | None, version: int) -> None:
        self.name = name
        self.instance_id = instance_id
        self.version = version
        self.metadata = 0
        self.restart()

    def restart(self) -> None:
        """It crashes, and knows nothing any more."""
        self.member_id = ""
        self.generation_id = -1
        self.joining: JoinWaiting | None = None
        self.syncing: SyncWaiting | None = None
        self.is_in = False


class Life:
    """The group and its clients, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.run = Running(initial_rebalance_delay_ms=self.random.choice((0, DELAY_MS)))
        self.run.holds_appends = True
        self.clients = [
            Client(f"c{n}", f"i{n}" if self.random.random() < 0.4 else None, version)
            for n, version in enumerate(self.random.choices((2, 5, 9), k=self.random.randint(1, 5)))
        ]
        self.waiting: list[tuple[JoinWaiting | SyncWaiting, int]] = []
        self.oldest_append_ms = 0
        self.is_refused = False
        """What became of the last append."""
        self.owners: dict[tuple[int, int], str] = {}
        self.generation_id = 0
        self.syncs = 0

    def live(self) -> None:
        for _ in range(STEPS):
            self.step()
            self.check()
        for client in self.clients:
            client.restart()
        for _ in range(3):
            self.finish_appends()
            self.tick(WAIT_MS + SESSION_MS)
        self.finish_appends()
        self.check()
        assert not any(waiting.is_parked for waiting, _ in self.waiting)
        assert self.run.group.is_empty
        assert self.run.group.wake_ms is None or not self.run.group.roster.pending

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.15:
            self.tick(self.random.choice((10, 1_000, 4_000, 9_000, 12_000)))
        elif chance < 0.30 and self.run.appends:
            self.finish_append()
        else:
            self.act(self.random.choice(self.clients))

    # The world

    def tick(self, ms: int) -> None:
        for _ in range(0, ms, 1_000):  # an append does not take longer than APPEND_MS
            if self.run.appends and self.run.now_ms - self.oldest_append_ms >= APPEND_MS - 1_000:
                self.finish_appends()
            self.run.tick(min(ms, 1_000))
            if not self.run.appends:
                self.oldest_append_ms = self.run.now_ms

    def finish_append(self) -> None:
        self.is_refused = self.random.random() < 0.2
        code = ErrorCode.NOT_ENOUGH_REPLICAS if self.is_refused else ErrorCode.NONE
        self.run.finish_append(code)

    def finish_appends(self) -> None:
        while self.run.appends:
            self.finish_append()
        self.oldest_append_ms = self.run.now_ms

    # Clients

    def act(self, client: Client) -> None:
        if self.random.random() < 0.06:
            client.restart()
        elif client.joining is not None:
            self.hear_join(client, client.joining)
        elif client.syncing is not None:
            self.hear_sync(client, client.syncing)
        elif not client.is_in:
            self.join(client)
        elif (chance := self.random.random()) < 0.1:
            identity = MemberIdentity(
                member_id=client.member_id, group_instance_id=client.instance_id
            )
            self.run.leave(identity)
            client.restart()
        elif chance < 0.2:
            client.metadata += 1
            self.join(client)
        else:
            code = self.run.heartbeat(client.member_id, client.generation_id, client.instance_id)
            self.hear(client, code)

    def join(self, client: Client) -> None:
        client.is_in = False
        metadata = str(client.metadata).encode()
        client.joining = self.run.join(
            client.name,
            client.member_id,
            version=client.version,
            instance_id=client.instance_id,
            protocols={"range": metadata, "other": b""} if client.metadata % 2 else {"range": b""},
            session_ms=SESSION_MS,
            rebalance_ms=self.random.choice((5_000, REBALANCE_MS)),
        )
        self.waiting.append((client.joining, self.run.now_ms))

    def hear_join(self, client: Client, joining: JoinWaiting) -> None:
        if joining.is_parked:
            return
        client.joining = None
        joined = joining.now
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = joined.member_id
        if joined.error_code:
            self.hear(client, joining.code)
            return
        client.member_id, client.generation_id = joined.member_id, joined.generation_id
        shares: dict[str, bytes] = {member.member_id: b"" for member in joined.members}
        if joined.leader == client.member_id and not joined.skip_assignment:
            ids = list(shares)
            for partition in range(PARTITIONS):
                shares[ids[partition % len(ids)]] += bytes([partition])
        client.syncing = self.run.sync(
            client.member_id,
            shares,
            generation_id=client.generation_id,
            instance_id=client.instance_id,
        )
        self.waiting.append((client.syncing, self.run.now_ms))

    def hear_sync(self, client: Client, syncing: SyncWaiting) -> None:
        if syncing.is_parked:
            return
        client.syncing = None
        if syncing.now.error_code:
            self.hear(client, syncing.code)
            return
        client.is_in = True
        self.syncs += 1
        for partition in syncing.now.assignment:
            owner = client.instance_id or client.member_id
            key = client.generation_id, partition
            assert self.owners.setdefault(key, owner) == owner, "a partition has two owners"

    def hear(self, client: Client, code: ErrorCode) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id = ""
        if code is not ErrorCode.NONE:
            client.is_in = False

    # What must hold

    def check(self) -> None:
        group, roster = self.run.group, self.run.group.roster
        self.waiting = [each for each in self.waiting if each[0].is_parked]
        for _, since_ms in self.waiting:
            assert self.run.now_ms <= since_ms + WAIT_MS + 1_000, "someone waits too long"
        if self.waiting and not self.run.appends:
            assert group.wake_ms is not None, "someone waits, and nothing will wake the group"
        assert group.generation_id >= self.generation_id
        self.generation_id = group.generation_id
        generations = [value.generation for value in self.run.written]
        assert generations == sorted(generations)
        assert roster.joined_count == sum(member.join is not None for member in roster)
        assert (roster.leader_id in roster.members) if roster.members else roster.leader_id is None
        assert set(roster.member_id_of.values()) == {
            member.member_id for member in roster if member.instance_id is not None
        }
        if group.state_name == "Stable" and not self.run.appends and not self.is_refused:
            kept = {member.member_id for member in self.run.written[-1].members}
            assert kept == set(roster.members), "the record does not have the members"


@pytest.mark.slow
def test_random_lives() -> None:
    syncs = 0
    for seed in SEEDS:
        life = Life(seed)
        try:
            life.live()
        except AssertionError as error:
            raise AssertionError(f"ODRADEK_SIM_SEED={seed}: {error}") from error
        syncs += life.syncs
    assert syncs > len(SEEDS), "the groups were to get somewhere"
