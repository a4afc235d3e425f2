"""Rates over sliding samples, as Kafka measures what its quotas limit.

What is recorded falls into samples of one length, of which the last few count. `SampledRate`
divides by the time since the oldest of them began, so a burst at the beginning is a high rate.
`FullRate` divides as if all samples but the current one had been there from the start, so a client
that was silent may send at once what it has not used.

Source: SampledStat, SimpleRate, Rate and QuotaUtils of Kafka 3.9.2.
"""

import math
from typing import Final

THROTTLE_MS_MAX: Final = (1 << 31) - 1


class _Sample:
    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.total = 0.0


class SampledRate:
    """Something per second, over the last few samples and the current one."""

    __slots__ = ("_current", "_samples", "_samples_max", "_window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        """`window_ms` is the length of one sample."""
        self._samples_max = samples
        self._window_ms = window_ms
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Count `value`; a negative one takes back what was recorded."""
        sample = self._begun(now_ms)
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._advance(now_ms)
        sample.total += value
        sample.last_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """The rate as of now."""
        self._forget_old(now_ms)
        total = sum(sample.total for sample in self._samples)
        return total / (self.span_ms(now_ms) / 1000)

    def span_ms(self, now_ms: int) -> int:
        """The time over which the rate is measured."""
        self._forget_old(now_ms)
        return max(self._elapsed_ms(now_ms), self._window_ms)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may follow for the rate to come down to its bound; 0: it is not above.

        With a bound of 0 that would be for ever; then it is the time that all samples take.
        """
        rate = self.measure(now_ms)
        if rate <= bound:
            return 0
        if bound <= 0:
            return self._samples_max * self._window_ms
        exact_ms = (rate - bound) / bound * self.span_ms(now_ms)
        return math.floor(min(exact_ms, THROTTLE_MS_MAX - 1) + 0.5)

    def _elapsed_ms(self, now_ms: int) -> int:
        return now_ms - min(sample.start_ms for sample in self._samples)

    def _forget_old(self, now_ms: int) -> None:
        self._begun(now_ms)
        kept_ms = self._samples_max * self._window_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= kept_ms:
                sample.reset(now_ms)

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


class FullRate(SampledRate):
    """The same, as if every sample but the current one had been there from the start."""

    __slots__ = ()

    def span_ms(self, now_ms: int) -> int:
        """The time over which the rate is measured."""
        self._forget_old(now_ms)
        elapsed_ms = self._elapsed_ms(now_ms)
        missing = self._samples_max - 1 - elapsed_ms // self._window_ms
        return max(elapsed_ms + max(missing, 0) * self._window_ms, 1)
