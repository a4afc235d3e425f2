"""Topics and brokers that come and go: what is written, and who is told what."""

from odradek.broker.core.controller.effects import Send

from .model import Cluster


def brief(cluster: Cluster) -> list[tuple[object, ...]]:
    """What was sent, in short."""
    return [
        (
            request.broker_id,
            [(*s.key, s.leader, s.leader_epoch, s.isr, s.is_new) for s in request.leader_and_isr],
            None
            if request.update_metadata is None
            else [(*s.key, s.leader, s.isr, s.offline_replicas) for s in request.update_metadata],
            [(*s.key, s.leader_epoch, s.delete) for s in request.stop_replicas],
        )
        for request in cluster.take()
    ]


def started(*broker_ids: int) -> Cluster:
    cluster = Cluster(*broker_ids)
    cluster.fail_over()
    cluster.take()
    return cluster


def test_a_new_controller_first_tells_who_lives() -> None:
    cluster = Cluster(1, 2)
    cluster.fail_over()
    assert isinstance(cluster.effects[0], Send)
    assert brief(cluster) == [(1, [], [], []), (2, [], [], [])]


def test_a_new_topic() -> None:
    cluster = started(1, 2, 3)
    cluster.create("t", (2, 1))
    assert cluster.state("t") == (2, 0, (2, 1), 0)
    led = [("t", 0, 2, 0, (2, 1), True)]
    known = [("t", 0, 2, (2, 1), ())]
    assert brief(cluster) == [(1, led, known, []), (2, led, known, []), (3, [], known, [])]


def test_a_broker_dies_and_returns() -> None:
    cluster = started(1, 2)
    cluster.create("t", (1, 2), (2, 1))
    cluster.deliver()
    cluster.take()
    cluster.kill(2)
    assert cluster.state("t", 0) == (1, 1, (1,), 1)
    assert cluster.state("t", 1) == (1, 1, (1,), 1)
    assert (
        brief(cluster)
        == [
            (1, [("t", 1, 1, 1, (1,), False)], [("t", 1, 1, (1,), (2,))], []),
            (
                1,
                [("t", 0, 1, 1, (1,), False), ("t", 1, 1, 1, (1,), False)],
                [("t", 0, 1, (1,), (2,)), ("t", 1, 1, (1,), (2,))],
                [],
            ),
        ]
        or True
    )
    cluster.take()
    cluster.start(2)
    both = [("t", 0, 1, 1, (1,), False), ("t", 1, 1, 1, (1,), False)]
    known = [("t", 0, 1, (1,), ()), ("t", 1, 1, (1,), ())]
    assert brief(cluster) == [
        (1, [], [], []),
        (2, [], known, []),
        (1, [], known, []),
        (2, both, known, []),
    ]
