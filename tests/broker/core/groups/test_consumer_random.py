"""Consumer groups in a random world: members come, go, crash and dawdle, topics change.

`ODRADEK_SIM_SEED=7 pytest tests/broker/core/groups/test_consumer_random.py` runs one seed, a range
"0..1999" runs those.
"""

from random import Random
from typing import Any

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.seeds import seeds

from .consumer_running import Owned, Running, Topics, contents

SEEDS = seeds(200, 600)
STEPS = 40
CALM_ROUNDS = 22
SESSION_MS = 10_000
REBALANCE_MS = 4_000
NAMES = ("t", "u", "v")
PATTERNS = ("t", "[uv]", ".*")


class Client:
    """A consumer that does what it is told, sometimes late, and never lets two have a partition."""

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.name = f"m{number}"
        self.instance_id = f"i{number % 3}" if world.random.random() < 0.3 else None
        self.epoch = 0
        self.owned: set[tuple[bytes, int]] = set()
        self.told: set[tuple[bytes, int]] = set()
        self.seen_ms = 0
        self.late_ms: int | None = None
        self.wants = world.some_subscription()

    def believes(self) -> set[tuple[bytes, int]]:
        """What it consumes; it stops by itself if it hears nothing, or is too slow to give up."""
        now_ms = self.world.run.now_ms
        dawdles = self.late_ms is not None and now_ms - self.late_ms >= REBALANCE_MS
        return set() if dawdles or now_ms - self.seen_ms >= SESSION_MS else self.owned

    def heartbeat(self, *, obey: bool = True) -> None:
        """Send what it owns, hear what it shall own; `obey`: give up what it must at once."""
        if self.epoch == 0:
            self.forget()
            said = {**self.wants, "rebalance_timeout_ms": REBALANCE_MS}
        else:
            tells = self.world.is_calm or self.world.random.random() < 0.1
            said = dict(self.wants) if tells else {}
        answer = self.world.send(self, self.epoch, said)
        if answer.error_code == ErrorCode.NONE:
            self.follow(answer)
        elif answer.error_code in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNRELEASED_INSTANCE_ID,
        ):
            self.forget()
        else:
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, answer
        if obey:
            self.obey()

    def follow(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        assert answer.member_epoch >= self.epoch, "an epoch went back"
        self.epoch = answer.member_epoch
        self.seen_ms = self.world.run.now_ms
        if answer.assignment is not None:
            self.told = {
                (topic.topic_id, partition)
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            }
        if self.owned <= self.told:
            self.late_ms = None  # the group has heard that it gave up
        elif self.late_ms is None:
            self.late_ms = self.seen_ms

    def obey(self) -> None:
        """Stop consuming what was taken away, then start with what was given."""
        self.owned = set(self.told)

    def forget(self) -> None:
        """Own nothing and join again."""
        self.epoch, self.owned, self.told, self.late_ms = 0, set(), set(), None

    def leave(self) -> None:
        static = self.instance_id is not None and self.world.random.random() < 0.7
        self.forget()
        self.world.send(self, -2 if static else -1, {})


class World:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.run = Running(
            Topics(t=self.random.randint(1, 6), u=self.random.randint(1, 3)),
            session_timeout_ms=SESSION_MS,
            group_size_max=100,
            assignment_interval_ms=self.random.choice((0, 0, 1_000)),
        )
        self.clients: list[Client] = []
        self.made = 0
        self.epoch_last = 0
        self.is_calm = False

    def some_subscription(self) -> dict[str, Any]:
        names = [name for name in NAMES if self.random.random() < 0.5]
        pattern = self.random.choice(PATTERNS) if self.random.random() < 0.2 else ""
        return {"subscribed_topic_names": names, "subscribed_topic_regex": pattern}

    def send(
        self, client: Client, epoch: int, said: dict[str, Any]
    ) -> ConsumerGroupHeartbeatResponse:
        owned: Owned = {}
        for topic_id, partition in client.owned:
            name = self.run.topics.name_of(topic_id)
            if name is not None:
                owned.setdefault(name, []).append(partition)
        said = {**said, "instance_id": client.instance_id}
        return self.run.send(client.name, epoch, owned if epoch >= 0 else None, 1, **said)

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.12 and len(self.clients) < 6:
            self.made += 1
            self.clients.append(Client(self, self.made))
        elif choice < 0.17 and self.clients:
            self.clients.pop(self.random.randrange(len(self.clients))).leave()
        elif choice < 0.21 and self.clients:
            self.clients.pop(self.random.randrange(len(self.clients)))  # it crashed
        elif choice < 0.25 and self.clients:
            self.random.choice(self.clients).wants = self.some_subscription()
        elif choice < 0.30:
            self.change_topics()
        elif choice < 0.33:
            before = self.run.group.state
            assert contents(self.run.reload().state) == contents(before)
        elif choice < 0.36:
            self.run.wall_ms += self.random.randint(-3_600_000, 3_600_000)
        elif choice < 0.40:
            self.run.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
        elif choice < 0.50:
            self.run.pass_time(self.random.choice((10, 900, 2_500)))
        elif self.clients:
            client = self.random.choice(self.clients)
            client.heartbeat(obey=self.random.random() < 0.7)
            self.run.refuse = ErrorCode.NONE
        self.check()

    def change_topics(self) -> None:
        topics, name = self.run.topics, self.random.choice(NAMES)
        image = topics.get(name)
        if image is None:
            topics.create(name, self.random.randint(1, 5))
        elif self.random.random() < 0.4:
            topics.delete(name)
        else:
            topics.extend(name, image.partition_count + 1)

    def check(self) -> None:
        """Nobody consumes what another one does, and the group's epoch does not go back."""
        held: dict[tuple[bytes, int], str] = {}
        for client in self.clients:
            for partition in client.believes():
                assert partition not in held, f"{client.name} and {held[partition]}: {partition}"
                held[partition] = client.name
        state = self.run.group.state
        assert state.group_epoch >= self.epoch_last or not state.members
        self.epoch_last = state.group_epoch
        assert state.assignment_epoch <= state.group_epoch

    def calm_down(self) -> None:
        """Everybody sends heartbeats; who has crashed is fenced; then all is as it should be."""
        self.run.refuse, self.is_calm = ErrorCode.NONE, True
        for _ in range(CALM_ROUNDS):
            for client in self.clients:
                client.heartbeat()
                self.check()
            self.run.pass_time(1_300)
        state = self.run.group.state
        alive = {client.name for client in self.clients}
        assert state.members.keys() <= alive, "somebody is not fenced"
        assert state.name in ("Stable", "Empty"), state.name
        wanted = {
            (image.topic_id, partition)
            for name in state.subscribed_topics()
            if (image := self.run.topics.get(name)) is not None
            for partition in range(image.partition_count)
        }
        consumed = {partition for client in self.clients for partition in client.owned}
        assert consumed == wanted


@pytest.mark.slow
def test_random_groups() -> None:
    for seed in SEEDS:
        try:
            world = World(seed)
            for _ in range(STEPS):
                world.step()
            world.calm_down()
        except BaseException as error:
            error.add_note(f"ODRADEK_SIM_SEED={seed}")
            raise
