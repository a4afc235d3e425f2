"""How fast replicas may be copied."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.config import Config
from odradek.broker.core.replication_quota import (
    ReplicationQuota,
    follower_is_throttled,
    leader_is_throttled,
)
from odradek.broker.core.sampled_rate import SampledRate
from tests.broker.core.test_partition import partition_of

MB = 1_000_000


def test_the_first_sample_counts_as_a_whole_one() -> None:
    rate = SampledRate(11, 1000)
    rate.record(5000, 0)
    assert rate.measure(0) == 5000
    assert rate.measure(10) == 5000
    assert rate.measure(2000) == 2500


def test_old_samples_are_forgotten() -> None:
    rate = SampledRate(2, 1000)
    rate.record(1000, 0)
    assert rate.measure(1999) == pytest.approx(500, rel=0.01)
    assert rate.measure(2000) == 0
    rate.record(300, 2500)
    assert rate.measure(2500) == 300 * 1000 / 1000


def test_one_sample_more_is_kept_than_are_counted() -> None:
    rate = SampledRate(2, 1000)
    for second in range(9):
        rate.record(600, second * 1000)
    assert rate.measure(8000) == 600 * 2 * 1000 / 1000  # of 7000 and 8000, since 7000
    assert rate.measure(8999) == pytest.approx(600, rel=0.01)


def test_a_bound_counts_from_now_on() -> None:
    bound: list[int | None] = [None]
    quota = ReplicationQuota(SampledRate(11, 1000), lambda: bound[0])
    quota.record(3 * MB, 0)
    assert not quota.is_exceeded(0)
    bound[0] = MB
    assert quota.is_exceeded(0)
    assert quota.is_exceeded(2999)
    assert not quota.is_exceeded(3000)  # at the bound is not above it
    bound[0] = 2 * MB
    assert not quota.is_exceeded(2000)
    bound[0] = 0
    assert quota.is_exceeded(3000)
    bound[0] = None
    assert not quota.is_exceeded(3000)


def test_nothing_is_let_through_once_but_for_what_was_silent() -> None:
    quota = ReplicationQuota(SampledRate(11, 1000), lambda: 0)
    assert not quota.is_exceeded(0)  # as in Kafka: the first copy of all goes
    quota.record(1, 0)
    assert quota.is_exceeded(10_999)
    assert not quota.is_exceeded(11_000)


@settings(max_examples=40, deadline=None)
@given(
    bound=st.integers(1000, 10 * MB),
    piece=st.integers(1, MB),
    step_ms=st.integers(40, 600),
    samples=st.integers(1, 20),
)
def test_the_average_is_kept(bound: int, piece: int, step_ms: int, samples: int) -> None:
    quota = ReplicationQuota(SampledRate(samples, 1000), lambda: bound)
    sent, end_ms = 0, 1000 * max(20, 3 * samples)
    for now_ms in range(0, end_ms, step_ms):
        if not quota.is_exceeded(now_ms):
            quota.record(piece, now_ms)
            sent += piece
    # Above it by what goes before anything is measured: a piece beyond the first sample, and
    # again after each silence that is longer than all samples.
    silences = 1 + end_ms // (samples * 1000)
    assert sent <= (bound * (end_ms / 1000) + bound) * (1 + 1 / samples) + silences * piece
    possible = piece * (end_ms // step_ms)
    assert sent >= min(possible, bound * end_ms / 1000) * samples / (samples + 2) - piece


def test_which_replica_is_throttled(tmp_path: Path) -> None:
    partition = partition_of(tmp_path)
    mine = f"{partition.log.partition}:{partition.node_id}"
    for text, expected in ((mine, True), ("*", True), ("0:99", False), ("", False)):
        leaders = {"leader.replication.throttled.replicas": text}
        partition.configure(Config().topic_config(leaders))
        assert leader_is_throttled(partition) == expected
        assert not follower_is_throttled(partition)
        partition.configure(
            Config().topic_config({"follower.replication.throttled.replicas": text})
        )
        assert follower_is_throttled(partition) == expected
        assert not leader_is_throttled(partition)
