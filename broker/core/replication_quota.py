"""How fast replicas may be copied: a rate over sliding samples, and whether it is exceeded.

Source: ReplicationQuotaManager, SimpleRate and SampledStat of Kafka 3.9.2.  A copy of any size is
allowed while the rate is at or below its bound; its size is counted afterwards. So a burst is
allowed first, and the average holds over the samples.
"""

from collections.abc import Callable

from .partition import Partition


class _Sample:
    __slots__ = ("last_ms", "size_bytes", "start_ms")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.size_bytes = 0


class SampledRate:
    """Bytes per second, over the last few samples and the current one."""

    __slots__ = ("_current", "_samples", "_samples_max", "_window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._samples_max = samples
        self._window_ms = window_ms
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that were copied."""
        sample = self._begun(now_ms)
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._advance(now_ms)
        sample.size_bytes += size_bytes
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """The rate since the oldest sample began, over at least the length of one sample."""
        self._begun(now_ms)
        kept_ms = self._samples_max * self._window_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= kept_ms:
                sample.reset(now_ms)
        start_ms = min(sample.start_ms for sample in self._samples)
        size_bytes = sum(sample.size_bytes for sample in self._samples)
        return size_bytes * 1000 / max(now_ms - start_ms, self._window_ms)

    def _begun(self, now_ms: int) -> _Sample:
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        return self._samples[self._current]

    def _advance(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._samples_max + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]


class ReplicationQuota:
    """A rate and its bound, which may change at any time; None: there is no bound."""

    __slots__ = ("_bound", "_rate")

    def __init__(self, rate: SampledRate, bound: Callable[[], int | None]) -> None:
        self._rate = rate
        self._bound = bound

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that were copied."""
        self._rate.record(size_bytes, now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether nothing more may be copied now."""
        bound = self._bound()
        return bound is not None and self._rate.measure(now_ms) > bound


def leader_is_throttled(partition: Partition) -> bool:
    """Whether what this broker, as the leader, sends of a partition counts against the quota."""
    key = partition.log.partition, partition.node_id
    return key in partition.config.throttled_leaders


def follower_is_throttled(partition: Partition) -> bool:
    """Whether what this broker, as a follower, fetches of a partition counts against the quota."""
    key = partition.log.partition, partition.node_id
    return key in partition.config.throttled_followers
