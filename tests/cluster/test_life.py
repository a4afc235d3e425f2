"""What happens to topics and brokers in a cluster's ordinary life, whatever the store is."""

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from tests.lab import admin
from tests.lab.cluster import PATIENT
from tests.lab.standstill import Standstill
from tests.lab.writer import Writer, misread, read_all
from tests.support.waiting import until

from .clusters import BROKERS, KINDS, PARAMS, Cluster

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]

WRITE_S: Final = 0.3
# A controller that is stopped gives its office up: nobody waits for the end of its session (10 s).
CONTROLLED_WITHIN_S: Final = 7.0
ON_THE_WAY: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


@pytest.fixture(scope="module", params=PARAMS)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    # Leaders stay where they are, also while the machine stands still.
    settings = {**PATIENT, "num.partitions": "4", "default.replication.factor": "2"}
    with KINDS[request.param](tmp_path_factory.mktemp("life"), settings) as running:
        yield running


def replicas(cluster: Cluster, topic: str) -> dict[int, tuple[int, ...]]:
    """Of each partition."""
    found = cluster.partitions()[0]
    return {key[1]: seen.replicas for key, seen in found.items() if key[0] == topic}


def leaders(cluster: Cluster, topic: str) -> list[int]:
    """Of each partition, as every view shows them."""
    views = [
        [seen.leader for key, seen in sorted(view.items()) if key[0] == topic]
        for view in cluster.partitions()
    ]
    return views[0] if all(view == views[0] for view in views) else []


def write_for(cluster: Cluster, topic: str, partitions: int, seconds: float) -> Writer:
    """A producer that has written for a while; all is acknowledged."""
    with Writer(cluster.bootstrap_servers, topic, partitions) as writer:
        threading.Event().wait(seconds)
    assert writer.failed == []
    return writer


def check_records(cluster: Cluster, topic: str, writers: Sequence[Writer]) -> None:
    """What all have written is there, once all know who leads: a reader asks any of them."""
    cluster.settle(topic)
    partitions = len(writers[0].acknowledged)
    found = read_all(cluster.bootstrap_servers, topic, partitions)
    for writer in writers:
        assert sum(map(len, writer.acknowledged)) > 0
        pairs = zip(writer.acknowledged, found, strict=True)
        assert [misread(*pair) for pair in pairs] == [[]] * partitions


def test_each_kind_of_assignment(cluster: Cluster) -> None:
    admin.create_topic(cluster, "counted", partitions=6, replication_factor=3)
    admin.create_topic(cluster, "defaults")
    admin.create_topic(cluster, "by-hand", assignment=[[2, 0], [1, 2], [0, 1]])
    for broker in BROKERS:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=f"automatic-{broker}")])
        cluster.ask(asked, 9, broker=broker, accepted=ON_THE_WAY)
    until(
        lambda: all(len(replicas(cluster, f"automatic-{broker}")) == 4 for broker in BROKERS),
        "the topics that clients have named are made",
    )
    cluster.settle()
    assert {len(ids) for ids in replicas(cluster, "counted").values()} == {3}
    firsts = [ids[0] for ids in replicas(cluster, "counted").values()]
    assert sorted(firsts) == [0, 0, 1, 1, 2, 2]
    assert [len(ids) for ids in replicas(cluster, "defaults").values()] == [2] * 4
    assert replicas(cluster, "by-hand") == {0: (2, 0), 1: (1, 2), 2: (0, 1)}
    writers = [write_for(cluster, "by-hand", 3, WRITE_S) for _ in range(2)]
    check_records(cluster, "by-hand", writers)


def test_partitions_are_added(cluster: Cluster) -> None:
    admin.create_topic(cluster, "grows", assignment=[[0, 1, 2], [1, 2, 0]])
    before = write_for(cluster, "grows", 2, WRITE_S)
    admin.add_partitions(cluster, "grows", count=4, assignment=[[2, 0, 1], [1, 0, 2]])
    cluster.settle()
    assert leaders(cluster, "grows") == [0, 1, 2, 1]
    after = write_for(cluster, "grows", 4, WRITE_S)
    before.acknowledged += [[], []]
    check_records(cluster, "grows", [before, after])


def test_a_stopped_broker_hands_over_and_returns(cluster: Cluster) -> None:
    """Clients notice nothing but retries; leaders return only when they are asked to."""
    admin.create_topic(cluster, "handed", assignment=[[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    unled: list[str] = []
    victim = next(broker for broker in BROKERS if broker != cluster.controller())
    with Writer(cluster.bootstrap_servers, "handed", 3) as writer:
        threading.Event().wait(WRITE_S)
        watched = threading.Event()
        watch = threading.Thread(target=watch_leaders, args=(cluster, "handed", watched, unled))
        watch.start()
        try:
            cluster.stop(victim)
        finally:
            watched.set()
            watch.join()
        threading.Event().wait(WRITE_S)
        assert victim not in leaders(cluster, "handed")
        cluster.start(victim)
        cluster.settle()
    assert unled == []
    assert writer.failed == []
    assert victim not in leaders(cluster, "handed")
    admin.elect_preferred(cluster, {"handed": [victim]})
    until(lambda: leaders(cluster, "handed") == [0, 1, 2], "the preferred replicas lead")
    check_records(cluster, "handed", [writer, write_for(cluster, "handed", 3, WRITE_S)])


def watch_leaders(cluster: Cluster, topic: str, enough: threading.Event, unled: list[str]) -> None:
    """Note every partition that is seen without a leader."""
    while not enough.is_set():
        with contextlib.suppress(OSError):  # one that was running a moment ago is asked
            unled += [
                f"{key} {seen}"
                for view in cluster.partitions()
                for key, seen in view.items()
                if key[0] == topic and seen.leader < 0
            ]


def test_deletion_waits_for_a_replica(cluster: Cluster) -> None:
    admin.create_topic(cluster, "doomed", assignment=[[0, 1, 2], [1, 2, 0]])
    victim = next(broker for broker in BROKERS if broker != cluster.controller())
    cluster.kill(victim, expire=True)
    until(lambda: victim not in cluster.live(), "the broker is taken for dead")
    admin.delete_topic(cluster, "doomed", wait=False)
    until(lambda: not replicas(cluster, "doomed"), "nobody shows the topic")
    assert cluster.deletions(["doomed"])
    cluster.start(victim)
    until(lambda: not cluster.deletions(["doomed"]), "the topic is deleted")
    admin.create_topic(cluster, "doomed", assignment=[[2, 1, 0]])
    cluster.settle()
    check_records(cluster, "doomed", [write_for(cluster, "doomed", 1, WRITE_S)])


def test_replicas_move(cluster: Cluster) -> None:
    admin.create_topic(cluster, "moves", assignment=[[0, 1], [1, 2]])
    with Writer(cluster.bootstrap_servers, "moves", 2) as writer:
        threading.Event().wait(WRITE_S)
        admin.reassign(cluster, {("moves", 0): [2, 1], ("moves", 1): [0, 2, 1]})
        until(lambda: replicas(cluster, "moves") == {0: (2, 1), 1: (0, 2, 1)}, "the replicas move")
    cluster.settle()
    assert writer.failed == []
    assert 0 not in leaders(cluster, "moves")[:1]
    check_records(cluster, "moves", [writer])


def test_all_brokers_see_new_configs(cluster: Cluster) -> None:
    admin.create_topic(cluster, "configured", assignment=[[0, 1, 2]])
    cluster.settle("configured")
    for broker in BROKERS:
        value = str(1_000_000 + broker)
        changed = {"retention.ms": value}
        admin.alter_configs(cluster, admin.TOPIC, "configured", put=changed, broker=broker)
        changed = {"log.retention.bytes": value}
        admin.alter_configs(cluster, admin.BROKER, "", put=changed, broker=broker)
        wanted = [value] * 2 * len(BROKERS)
        until(functools.partial(is_shown, cluster, wanted), "all show both settings")


def is_shown(cluster: Cluster, wanted: Sequence[str]) -> bool:
    """Whether all brokers describe both settings so."""
    return shown(cluster) == wanted


def shown(cluster: Cluster) -> list[str | None]:
    """Both settings as all brokers describe them."""
    return [
        value
        for broker in BROKERS
        for value in (
            described(cluster, broker, admin.TOPIC, "configured", "retention.ms"),
            described(cluster, broker, admin.BROKER, str(broker), "log.retention.bytes"),
        )
    ]


def described(cluster: Cluster, broker: int, kind: int, name: str, key: str) -> str | None:
    """A setting as a broker describes it."""
    return admin.describe_configs(cluster, kind, name, [key], broker=broker)[key]


def producer_ids(cluster: Cluster) -> list[int]:
    """A few from each broker that runs."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000)
    answers = [cluster.ask(request, 4, broker=b) for _ in range(3) for b in cluster.running]
    return [answer.producer_id for answer in answers]


def test_a_stopped_controller_is_replaced(cluster: Cluster) -> None:
    """Nobody's producer ids are given twice, under this controller, the next, and the one after."""
    given = producer_ids(cluster)
    for _ in range(2):
        first = cluster.controller()
        assert first is not None
        cluster.stop(first)
        with Standstill() as machine:
            begin_s = machine.own_s()
            until(lambda: cluster.controller() in cluster.running, "there is another controller")
            assert machine.own_s() - begin_s < CONTROLLED_WITHIN_S
        admin.create_topic(cluster, f"after-{first}", partitions=2, replication_factor=2)
        given += producer_ids(cluster)
        cluster.start(first)
        cluster.settle()
        given += producer_ids(cluster)
    assert len(set(given)) == len(given)
    epochs = cluster.controller_epochs()
    assert epochs == sorted(set(epochs))
