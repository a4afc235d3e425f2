"""Controllers and other brokers are killed while topics come and go and a producer writes."""

import logging
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.lab import admin
from tests.lab.standstill import Standstill
from tests.lab.writer import Writer, misread, read_all
from tests.seeds import Repeats, repeated
from tests.support.waiting import until

from .churn import Churn
from .clusters import BROKERS, KINDS, PARAMS, SESSION_S, Cluster, Embedded, ZooKeeper
from .txn_log import read_log, violations

pytestmark = pytest.mark.wire

log = logging.getLogger(__name__)

TOPIC: Final = "kept"
PARTITIONS: Final = 6
LED_AFTER_NODE_S: Final = 2.0
LED_AFTER_KILL_S: Final = 6.5
# What was measured is without the machine's stops. It may also be slow, but of all kills one may
# find it so, and by so much.
SLOW_S: Final = 5.0
DELETED_AFTER_RETURN_S: Final = 60.0
LOOK_S: Final = 0.02
# Of so many kills one leaves the session to expire, and so takes its time. (Not an even number:
# controllers and others take turns.)
LEFT_TO_EXPIRE: Final = 9
# After so many something else happens as well.
SPECIAL: Final = 10


class Killer:
    """Kills brokers and measures how long partitions have no leader, less the machine's stops."""

    def __init__(self, cluster: Cluster, machine: Standstill, seed: int) -> None:
        self._cluster = cluster
        self._now_s = machine.own_s
        self._random = random.Random(seed)
        self.after_node_s: list[float] = []
        self.after_kill_s: list[float] = []

    def kill(self, *, controller: bool, expire: bool) -> None:
        """One that is the controller or one that is not; it is started again."""
        cluster = self._cluster
        cluster.settle(TOPIC)
        until(lambda: cluster.controller() in cluster.running, "there is a controller")
        first = cluster.controller()
        assert first is not None
        others = [broker for broker in BROKERS if broker != first]
        victim = first if controller else self._random.choice(others)
        killed_s = self._now_s()
        cluster.kill(victim, expire=expire)
        gone_s = killed_s if expire else self._gone(victim)
        self._led(killed_s, gone_s)
        if controller:
            until(lambda: cluster.controller() in cluster.running, "there is a new controller")
        cluster.start(victim)

    def bounce(self) -> None:
        """Kill one and start it again while its session is still there."""
        self._cluster.settle(TOPIC)
        victim = self._random.choice(BROKERS)
        self._cluster.kill(victim, expire=False)
        self._cluster.start(victim)
        # From its return: how long a process takes to start is the machine's, and `start` waits.
        self._led(self._now_s(), None)

    def kill_two(self) -> None:
        """One, and at once the controller, which is just choosing other leaders."""
        cluster = self._cluster
        cluster.settle(TOPIC)
        controller = cluster.controller()
        assert controller is not None
        other = self._random.choice([broker for broker in BROKERS if broker != controller])
        killed_s = self._now_s()
        cluster.kill(other, expire=True)
        cluster.kill(controller, expire=True)
        self._led(killed_s, killed_s)
        cluster.start_alone(other)  # the last one in sync may be the controller
        cluster.start(controller)

    def pause_controller(self) -> None:
        """SIGSTOP until its session has ended; it wakes up in the middle of what it did."""
        cluster = self._cluster
        if not isinstance(cluster, ZooKeeper):
            return
        cluster.settle(TOPIC)
        victim = cluster.controller()
        assert victim is not None
        killed_s = self._now_s()
        with cluster.paused(victim):
            self._led(killed_s, self._gone(victim))

    def _gone(self, victim: int) -> float:
        deadline_s = self._now_s() + SESSION_S + LED_AFTER_KILL_S + SLOW_S
        while victim in self._cluster.live():
            assert self._now_s() < deadline_s, f"broker {victim} is still registered"
            time.sleep(LOOK_S)
        return self._now_s()

    def _led(self, killed_s: float, gone_s: float | None) -> None:
        deadline_s = killed_s + 3 * LED_AFTER_KILL_S
        seen: list[str] = []
        while unled := self._cluster.unled():
            assert self._now_s() < deadline_s, unled
            seen = unled
            time.sleep(LOOK_S)
        now_s = self._now_s()
        if now_s - (gone_s or now_s) > LED_AFTER_NODE_S / 2:
            log.warning("led late last=%s", seen)
        if gone_s is not None:
            self.after_node_s.append(now_s - gone_s)
        self.after_kill_s.append(now_s - killed_s)


def late(took_s: Sequence[float], limit_s: float) -> list[float]:
    """What took longer than it may; but for one, which may have been the machine's."""
    return [s for s in sorted(took_s)[:-1] if s > limit_s] + [
        s for s in took_s if s > limit_s + SLOW_S
    ]


@pytest.fixture(params=PARAMS)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    with KINDS[request.param](tmp_path, {}) as running:
        yield running


def kill_many(cluster: Cluster, repeats: Repeats) -> None:
    """As many controllers and as many other brokers, in turn."""
    admin.create_topic(cluster, TOPIC, partitions=PARTITIONS, replication_factor=3)
    with (
        Standstill() as machine,
        Churn(cluster) as churn,
        Writer(cluster.bootstrap_servers, TOPIC, PARTITIONS) as writer,
    ):
        killer = Killer(cluster, machine, repeats.seed)
        for number in range(2 * repeats.count):
            expire = number % LEFT_TO_EXPIRE != LEFT_TO_EXPIRE - 1
            killer.kill(controller=number % 2 == 1, expire=expire)
            if number % SPECIAL == SPECIAL - 1:
                killer.kill_two()
                killer.bounce()
                killer.pause_controller()
        back_s = time.monotonic()
    log.info("after node_s=%s", [round(s, 2) for s in killer.after_node_s])
    log.info("after kill_s=%s", [round(s, 2) for s in killer.after_kill_s])
    log.info("acknowledged=%s churn=%s", [*map(len, writer.acknowledged)], churn.answers)
    until(
        lambda: not cluster.deletions(churn.asked_to_delete),
        "all is deleted",
        DELETED_AFTER_RETURN_S,
    )
    log.info("deleted_s=%.2f", time.monotonic() - back_s)
    cluster.settle()
    found = read_all(cluster.bootstrap_servers, TOPIC, PARTITIONS)
    assert [misread(*pair) for pair in zip(writer.acknowledged, found, strict=True)] == (
        [[]] * PARTITIONS
    )
    assert writer.failed == []
    assert churn.unexpected == []
    assert late(killer.after_node_s, LED_AFTER_NODE_S) == [], killer.after_node_s
    assert late(killer.after_kill_s, LED_AFTER_KILL_S) == [], killer.after_kill_s
    epochs = cluster.controller_epochs()
    assert epochs == sorted(set(epochs))
    assert len(epochs) > repeats.count


# Five of each: in the ninth a session expires, after the tenth something else happens as well.
@repeated(in_test=5, in_soak=100)
def test_kills_under_churn(cluster: Cluster, tmp_path: Path, repeats: Repeats) -> None:
    kill_many(cluster, repeats)
    check_store(cluster, tmp_path)


def check_store(cluster: Cluster, directory: Path) -> None:
    """What the store itself says in the end."""
    if isinstance(cluster, Embedded):
        cluster.stop_all()
        assert cluster.left_in_store("/admin/delete_topics/") == []
    elif isinstance(cluster, ZooKeeper):
        assert cluster.deletions([]) == []
        cluster.lab.stop_zookeeper()
        txns = read_log(directory)
        assert sum(op.what == "check" for txn in txns for op in txn.ops) > 0
        assert violations(txns) == []
