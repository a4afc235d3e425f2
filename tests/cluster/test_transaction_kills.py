"""The coordinators of transactions are killed in the middle of commits.

Another one completes what was decided, and tells of each transactional id what the log says. A kill
counts if a transaction was decided by one coordinator and completed by another.
"""

import logging
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from odradek.broker.core.topic_names import TRANSACTION_STATE_TOPIC
from odradek.broker.core.transactions.states import PREPARED, TransactionState
from tests.lab import admin
from tests.seeds import Repeats, repeated
from tests.support.waiting import until

from .clusters import KINDS, Cluster
from .committing import Committer, StateLog, committed_in, misread, told

pytestmark = pytest.mark.wire

log = logging.getLogger(__name__)

TOPIC: Final = "kept"
PARTITIONS: Final = 3
STATE_PARTITIONS: Final = 3
SETTINGS: Final = {
    "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
COMMITTERS: Final = 8
# One of them is found in the middle of a transaction whenever all pause.
IN_TRANSACTION: Final = 0
WINDOW_S: Final = 0.1


# In `make test` without ZooKeeper: 4 s instead of 11 s.
@pytest.fixture(
    params=["embedded", pytest.param("zookeeper", marks=[pytest.mark.java, pytest.mark.soak])]
)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    with KINDS[request.param](tmp_path, SETTINGS) as running:
        yield running


def go_on(committers: Sequence[Committer]) -> None:
    """Until each has ended two more transactions."""
    enough = {committer: len(committer.outcomes) + 2 for committer in committers}
    until(
        lambda: all(len(committer.outcomes) >= count for committer, count in enough.items()),
        lambda: [(c.name, len(c.outcomes), c.reasons[-2:]) for c in committers],
        timeout_s=120,
    )


def check_memory(cluster: Cluster, committers: Sequence[Committer], states: StateLog) -> None:
    """While all pause, each coordinator tells of its transactional ids what its log says."""
    for committer in committers:
        committer.is_to_pause.set()
    for committer in committers:
        assert committer.is_resting.wait(120), committer.reasons

    def at_rest() -> bool:
        states.read()
        return not any(known.state in PREPARED for known in states.states.values())

    until(at_rest, lambda: states.states)
    memory = {name: told(cluster, name, STATE_PARTITIONS) for name in states.states}
    assert memory == states.states
    assert memory.keys() == {committer.name for committer in committers}
    in_transaction = memory[committers[IN_TRANSACTION].name]
    assert in_transaction is not None
    assert in_transaction.state is TransactionState.ONGOING
    assert in_transaction.partitions == {(TOPIC, p) for p in range(PARTITIONS)}
    for committer in committers:
        committer.is_to_pause.clear()


@repeated(in_test=2, in_soak=50, each_s=60)
def test_coordinators_are_killed(cluster: Cluster, repeats: Repeats) -> None:
    chance, moment = random.Random(repeats.seed), threading.Event()
    servers = cluster.bootstrap_servers
    admin.create_topic(cluster, TOPIC, partitions=PARTITIONS, replication_factor=3)
    with ExitStack() as stack:
        committers = [
            stack.enter_context(
                Committer(servers, TOPIC, PARTITIONS, f"id-{n}", in_transaction=n == IN_TRANSACTION)
            )
            for n in range(COMMITTERS)
        ]
        states = StateLog(servers, STATE_PARTITIONS)
        stack.callback(states.close)
        kills = in_the_middle = 0
        while in_the_middle < repeats.count:
            go_on(committers)
            cluster.settle()
            taken_over = states.taken_over
            victim = cluster.leader(TRANSACTION_STATE_TOPIC, kills % STATE_PARTITIONS)
            moment.wait(chance.uniform(0.0, WINDOW_S))
            cluster.kill(victim, expire=True)
            kills += 1
            go_on(committers)
            check_memory(cluster, committers, states)
            in_the_middle += states.taken_over > taken_over
            cluster.start(victim)
    cluster.settle()
    found = committed_in(servers, TOPIC, PARTITIONS)
    assert [text for committer in committers for text in misread(committer, found)] == []
    outcomes = Counter(outcome.name for committer in committers for outcome in committer.outcomes)
    log.info(
        "kills=%d in the middle=%d taken over=%d outcomes=%s",
        *(kills, in_the_middle, states.taken_over, outcomes),
    )
    log.info("reasons=%s", [committer.reasons for committer in committers])
