"""A suspect replica that is to lead does, or waits; and what ends the suspicion."""

from typing import Any

import pytest

from odradek.broker.core.partition_state import LEADER_IS_DELETED, PartitionState
from odradek.broker.metrics.counters import SUSPECT_REPLICAS_LED, SUSPECT_REPLICAS_WAITED
from odradek.broker.partitions.roles import Roles
from odradek.protocol.errors import ErrorCode
from odradek.storage.directory.suspicion import BOOT_NOTE, BootNote
from tests.support.awaiting import until

from .cluster import TOPIC, TOPIC_ID, Cluster, Replicating, on_cluster, produce, state_of

KEY = TOPIC, 0
WAIT = "wait"


async def told(
    broker: Replicating,
    state: PartitionState,
    overrides: dict[str, str] | None = None,
    *,
    controller_epoch: int = 1,
) -> ErrorCode:
    """What a broker answers to a LeaderAndIsr."""
    broker.replicas.set_overrides(state.topic, overrides or {})
    no_session: Any = None
    roles = Roles(
        broker.replicas,
        broker.runtime.clock,
        no_session,
        broker_id=broker.broker_id,
        live=broker.metadata.brokers,
        controller_epoch=controller_epoch,
        tell=broker.replicator.roles_changed,
    )
    return (await roles.take([state]))[state.key]


async def suspect(cluster: Cluster) -> Replicating:
    """Broker 1, which has followed 2 and may lack records of what it had then."""
    await cluster.take(state_of(2, 0, [1, 2], [1, 2]))
    await produce(cluster, 2, b"a", acks=-1)
    await cluster.until_equal()
    broker = cluster[1]
    broker.replicator.stopped([KEY])
    broker.replicas.suspects.add(KEY, "the test says so")
    return broker


def counted(broker: Replicating) -> tuple[int, int]:
    counters = broker.replicas.counters
    return counters[SUSPECT_REPLICAS_LED], counters[SUSPECT_REPLICAS_WAITED]


ALONE = {"leader": 1, "leader_epoch": 3, "isr": [1], "replicas": [1, 2], "is_new": False}


@pytest.mark.slow
@on_cluster(odradek_unclean_last_replica=WAIT)
async def test_the_last_one_waits_as_often_as_it_is_told(cluster: Cluster) -> None:
    broker = await suspect(cluster)
    for epoch in (3, 3, 5):
        state = state_of(**{**ALONE, "leader_epoch": epoch})  # type: ignore[arg-type]
        assert await told(broker, state) == ErrorCode.KAFKA_STORAGE_ERROR
    assert not broker.partition().is_leader
    assert broker.partition().log.epochs.latest == 0, "it has begun nothing"
    assert counted(broker) == (0, 3)
    assert KEY in broker.replicas.suspects

    def noted() -> bool:
        note = broker.files.read_bytes(f"{broker.log_dirs.first.path}/{BOOT_NOTE}")
        return note is not None and KEY in BootNote.parse(note).suspects

    await until(noted)
    accepted = state_of(**ALONE, is_loss_accepted=True)  # type: ignore[arg-type]
    assert await told(broker, accepted._replace(leader_epoch=7)) == ErrorCode.NONE
    assert broker.partition().is_leader
    assert counted(broker) == (1, 3)
    assert KEY not in broker.replicas.suspects
    await until(lambda: not noted())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "changed", "overrides"),
    [
        ("lead", {}, {}),
        ("lead", {"isr": [1, 2]}, {}),
        (WAIT, {"replicas": [1]}, {}),
        (WAIT, {}, {"unclean.leader.election.enable": "true"}),
    ],
    ids=["wanted", "others in sync", "only replica", "unclean topic"],
)
def test_one_that_leads_all_the_same_is_loud(
    setting: str,
    changed: dict[str, Any],
    overrides: dict[str, str],
    tmp_path: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    @on_cluster(odradek_unclean_last_replica=setting)
    async def leads(cluster: Cluster) -> None:
        broker = await suspect(cluster)
        state = state_of(**{**ALONE, **changed})
        assert await told(broker, state, overrides) == ErrorCode.NONE
        assert broker.partition().is_leader
        assert counted(broker) == (1, 0)
        assert KEY not in broker.replicas.suspects

    leads(tmp_path)
    (said,) = [r.getMessage() for r in caplog.records if "suspect replica leads" in r.message]
    assert f"topic={TOPIC} partition=0 log_end_offset=1 high_watermark=1 last_epoch=0 " in said


@pytest.mark.slow
@on_cluster(odradek_unclean_last_replica=WAIT)
async def test_others_in_sync_lead_first(cluster: Cluster) -> None:
    """They may have what was lost; and whom to follow then has to be asked for."""
    broker = await suspect(cluster)
    asked: list[object] = []
    broker.replicas.on_log_dir_failed = asked.append
    both = state_of(**{**ALONE, "isr": [1, 2]})  # type: ignore[arg-type]
    assert await told(broker, both) == ErrorCode.KAFKA_STORAGE_ERROR
    assert not broker.partition().is_leader
    suspects = broker.replicas.suspects
    suspects.told([both._replace(leader=-1, isr=(2,), leader_epoch=4)])
    follow = both._replace(leader=2, isr=(2,), leader_epoch=5, partition_epoch=5)
    suspects.told([follow])
    suspects.told([follow])
    await until(lambda: asked == [()])
    await cluster[2].take(follow)
    assert await told(broker, follow) == ErrorCode.NONE
    suspects.told([follow])
    assert not suspects._is_asking
    await produce(cluster, 2, b"b")
    await until(lambda: KEY not in suspects)


async def restarted(cluster: Cluster) -> Replicating:
    """Broker 1, suspect, that nobody has told anything yet."""
    broker = await suspect(cluster)
    broker.replicas.stop_serving([KEY])
    return broker


BOTH = state_of(**{**ALONE, "isr": [1, 2]})  # type: ignore[arg-type]


@pytest.mark.slow
@on_cluster()
async def test_nobody_leads_twice_in_an_epoch(cluster: Cluster) -> None:
    """A later controller has not seen that it was gone; others may have more of that epoch."""
    broker = await restarted(cluster)
    asked: list[object] = []
    broker.replicas.on_log_dir_failed = asked.append
    later = BOTH._replace(leader_epoch=4, partition_epoch=4, controller_epoch=2)
    for state in (BOTH, BOTH._replace(controller_epoch=2), later):
        refused = await told(broker, state, controller_epoch=2)
        assert refused == ErrorCode.KAFKA_STORAGE_ERROR
    assert not broker.partition().is_leader
    assert counted(broker) == (0, 3)
    suspects = broker.replicas.suspects
    nobody = later._replace(leader=-1, leader_epoch=5, partition_epoch=5)
    for _ in range(3):
        suspects.told([nobody])
    await until(lambda: asked)
    assert await told(broker, nobody, controller_epoch=2) == ErrorCode.NONE, "it is there"
    elected = nobody._replace(leader=1, leader_epoch=6, partition_epoch=6)
    assert await told(broker, elected, controller_epoch=2) == ErrorCode.NONE
    assert broker.partition().is_leader
    suspects.told([elected])
    assert asked == [()]
    assert not suspects._is_asking


@on_cluster()
async def test_who_may_lead_on_in_an_epoch(cluster: Cluster) -> None:
    """If nobody else is there; or if the epoch is none in which it has led."""
    alone, elected = BOTH._replace(isr=(1,)), BOTH._replace(controller_epoch=2)
    broker = await restarted(cluster)
    for state in (alone, elected):
        assert await told(broker, state, controller_epoch=2) == ErrorCode.NONE
        assert broker.partition().is_leader
        broker.replicas.stop_serving([KEY])
        broker.replicas.suspects.add(KEY, "the test says so")
    broker.metadata.update_brokers(1, [broker.info])
    assert await told(broker, BOTH, controller_epoch=2) == ErrorCode.NONE, "nobody else is alive"
    assert counted(broker) == (3, 0)


@on_cluster()
async def test_one_that_was_told_something_since_has_not_led(cluster: Cluster) -> None:
    broker = await suspect(cluster)
    assert await told(broker, BOTH, controller_epoch=2) == ErrorCode.NONE
    assert broker.partition().is_leader


@pytest.mark.slow
@on_cluster()
async def test_one_that_is_to_be_deleted_has_to_be_there(cluster: Cluster) -> None:
    """The controller elects nobody for it, and deletes only what is online."""
    broker = await restarted(cluster)
    asked: list[object] = []
    broker.replicas.on_log_dir_failed = asked.append
    refused = await told(broker, BOTH, controller_epoch=2)
    assert refused == ErrorCode.KAFKA_STORAGE_ERROR
    broker.replicas.suspects.told([BOTH._replace(leader=LEADER_IS_DELETED)])
    await until(lambda: asked)
    assert await told(broker, BOTH, controller_epoch=2) == ErrorCode.NONE


@pytest.mark.slow
@on_cluster(odradek_unclean_last_replica=WAIT)
async def test_one_that_waits_does_so_no_more_if_it_is_to_be_deleted(cluster: Cluster) -> None:
    broker = await restarted(cluster)
    asked: list[object] = []
    broker.replicas.on_log_dir_failed = asked.append
    alone = BOTH._replace(isr=(1,))
    assert await told(broker, alone) == ErrorCode.KAFKA_STORAGE_ERROR
    suspects = broker.replicas.suspects
    suspects.told([alone._replace(leader=-1, leader_epoch=4)])
    assert not suspects._is_asking, "nobody else is there"
    suspects.told([alone._replace(leader=LEADER_IS_DELETED)])
    await until(lambda: asked)
    suspects.told([alone._replace(leader=LEADER_IS_DELETED)])
    assert not suspects._is_asking, "it has asked"
    assert await told(broker, alone) == ErrorCode.NONE


@on_cluster()
async def test_one_whose_log_is_lost_does_not_lead_on(cluster: Cluster) -> None:
    """The others would cut all that they have."""
    broker = cluster[1]
    assert await told(broker, BOTH, controller_epoch=2) == ErrorCode.KAFKA_STORAGE_ERROR
    assert not broker.partition().is_leader
    assert KEY in broker.replicas.suspects


@on_cluster(odradek_unclean_last_replica=WAIT)
async def test_one_whose_log_is_lost_waits_too(cluster: Cluster) -> None:
    broker = cluster[1]
    state = state_of(**ALONE)  # type: ignore[arg-type]
    assert await told(broker, state) == ErrorCode.KAFKA_STORAGE_ERROR
    log = broker.partition().log
    assert (log.log_end_offset, log.epochs.latest) == (0, -1)
    assert log.topic_id == TOPIC_ID
    assert KEY in broker.replicas.suspects
    assert await told(broker, state._replace(leader_epoch=5)) == ErrorCode.KAFKA_STORAGE_ERROR


@on_cluster(odradek_unclean_last_replica=WAIT)
async def test_a_new_replica_is_not_suspect(cluster: Cluster) -> None:
    for changed in ({"is_new": True}, {"partition_epoch": 0}):
        broker = cluster[1]
        state = state_of(**{**ALONE, **changed})  # type: ignore[arg-type]
        assert await told(broker, state) == ErrorCode.NONE
        await broker.replicas.logs.delete(KEY)
        broker.replicas.stop_serving([KEY])


@on_cluster(odradek_unclean_last_replica=WAIT)
async def test_a_record_of_the_leaders_epoch_ends_it(cluster: Cluster) -> None:
    broker = await suspect(cluster)
    state = state_of(2, 2, [2], [1, 2])
    await cluster.take(state)
    await until(lambda: cluster[2].partition().followers[1].log_end_offset == 1)
    assert KEY in broker.replicas.suspects, "nobody knows what 2 has committed of earlier epochs"
    await produce(cluster, 2, b"b")
    await until(lambda: KEY not in broker.replicas.suspects)
    assert await told(broker, state_of(1, 3, [1], [1, 2])) == ErrorCode.NONE
    assert counted(broker) == (0, 0)


@on_cluster(odradek_unclean_last_replica=WAIT)
async def test_to_be_taken_in_sync_ends_it(cluster: Cluster) -> None:
    suspects = (await suspect(cluster)).replicas.suspects
    suspects.told([state_of(2, 2, [1, 2], [1, 2])])
    assert KEY in suspects, "it was in sync before"
    suspects.told([state_of(2, 2, [2], [1, 2])])
    suspects.told([state_of(-1, 3, [1], [1, 2])])
    assert KEY in suspects
    suspects.told([state_of(2, 4, [2, 1], [1, 2])])
    assert KEY not in suspects


@on_cluster(odradek_unclean_last_replica=WAIT)
async def test_a_replica_that_is_deleted_is_forgotten(cluster: Cluster) -> None:
    broker = await suspect(cluster)
    broker.replicas.stop_serving([KEY])
    await broker.replicas.logs.delete(KEY)
    assert KEY not in broker.replicas.suspects
