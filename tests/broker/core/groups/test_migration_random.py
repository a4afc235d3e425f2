"""Random lives of groups in the middle of a migration: no partition ever has two owners."""

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k13_leave_group import MemberIdentity
from tests.seeds import seeds

from .migration_world import World, assigned, subscription

TOPICS = ("t0", "t1")
ALL = {(name, partition) for name in TOPICS for partition in range(4)}
Owned = set[tuple[str, int]]


def by_topic(owned: Owned) -> dict[str, list[int]]:
    return {name: sorted(p for topic, p in owned if topic == name) for name in TOPICS}


@dataclass
class Client(ABC):
    """A consumer as clients write it; it owns what it has been given and not yet given up."""

    world: World
    member_id: str
    owned: Owned = field(default_factory=set)
    epoch: int = 0

    @abstractmethod
    def beat(self) -> None:
        """Say the next thing to the broker."""

    @abstractmethod
    def leave(self) -> None:
        """Leave, if it is there."""

    def take(self, partitions: dict[str, list[int]]) -> None:
        self.owned = {(name, p) for name, numbers in partitions.items() for p in numbers}


class Modern(Client):
    def beat(self) -> None:
        owned = by_topic(self.owned)
        answer = self.world.heartbeat(
            self.member_id, self.epoch, topics=TOPICS, owned=owned if self.epoch else {}
        )
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.owned, self.epoch = set(), 0
            return
        assert answer.error_code == ErrorCode.NONE
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.take(self.world.owned_by(answer))

    def leave(self) -> None:
        if self.epoch:
            self.owned = set()
            self.world.heartbeat(self.member_id, -1)
            self.epoch = 0


class Classic(Client):
    """With cooperative rebalancing: it gives up what it must when it syncs, then joins again."""

    next_step: str = "join"

    def beat(self) -> None:
        match self.next_step:
            case "join":
                self._join()
            case "sync":
                self._sync()
            case _:
                self._heartbeat()

    def _join(self) -> None:
        metadata = subscription(*TOPICS, owned=by_topic(self.owned))
        joined = self.world.join(self.member_id, metadata=metadata)
        assert joined.error_code == ErrorCode.NONE
        self.epoch = joined.generation_id
        self.next_step = "sync"

    def _sync(self) -> None:
        synced = self.world.sync(self.member_id, self.epoch)
        self.next_step = "join"
        if synced.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.owned = set()
        elif synced.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            assert synced.error_code == ErrorCode.NONE
            before = self.owned
            self.take(assigned(synced.assignment))
            if before <= self.owned:
                self.next_step = "heartbeat"

    def _heartbeat(self) -> None:
        code = self.world.classic_heartbeat(self.member_id, self.epoch)
        if code is not ErrorCode.NONE:
            self.next_step = "join"
            if code is not ErrorCode.REBALANCE_IN_PROGRESS:
                self.owned = set()

    def leave(self) -> None:
        self.owned, self.next_step = set(), "join"
        self.world.leave(MemberIdentity(member_id=self.member_id))


def check(clients: list[Client]) -> None:
    owned = [item for client in clients for item in client.owned]
    assert len(owned) == len(set(owned)), "two owners"


@pytest.mark.parametrize("seed", seeds(12, 100))
def test_mixed_groups_settle_and_never_share_a_partition(seed: int) -> None:
    rng = random.Random(seed)
    world = World(policy="upgrade")
    ids = world.two_classic_members()
    clients: list[Client] = [Classic(world, member_id) for member_id in ids]
    for client, numbers in zip(clients, ([0, 1], [2, 3]), strict=True):
        client.epoch = 2
        client.owned = {("t0", number) for number in numbers}
    clients += [Modern(world, f"new{number}") for number in range(3)]
    clients += [Classic(world, f"old{number}") for number in range(2)]
    clients[2].beat()
    for _ in range(150):
        client = rng.choice(clients)
        if rng.random() < 0.07 and len(world.consumer.state.members) > 1:
            if client.member_id in world.consumer.state.members:
                client.leave()
        else:
            client.beat()
        check(clients)
        if rng.random() < 0.1:
            world.pass_time(rng.randint(1, 2_000))
            for one in clients:  # who was fenced learns it with the next heartbeat at the latest
                if one.member_id not in world.consumer.state.members:
                    one.owned = set()
    for _ in range(20):
        for client in clients:
            client.beat()
            check(clients)
    assert world.consumer.state_name == "Stable"
    assert {item for client in clients for item in client.owned} == ALL
