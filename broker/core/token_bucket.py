"""A quota that may be saved up: changes of topics are rare, and come in large batches (KIP-599).

Tokens come at the rate of the quota, up to what the samples last. A change takes as many as it has
partitions, also more than there are: then there is a debt, and the next change has to wait.

Source: TokenBucket and ControllerMutationQuotaManager of Kafka 3.9.2.
"""

import math

from .sampled_rate import THROTTLE_MS_MAX


class TokenBucket:
    """Tokens, which are full at first."""

    __slots__ = ("_last_ms", "_span_ms", "_tokens")

    def __init__(self, span_ms: int) -> None:
        """`span_ms`: for how long tokens may be saved up."""
        self._span_ms = span_ms
        self._tokens = math.inf
        self._last_ms = 0

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """Take tokens, which come at this rate per second."""
        self._fill(rate, now_ms)
        self._tokens = min(self._burst(rate), self._tokens - count)

    def has_debt(self, rate: float, now_ms: int) -> bool:
        """Whether no more tokens may be taken now."""
        self._fill(rate, now_ms)
        return self._tokens < 0

    def throttle_ms(self, rate: float, now_ms: int) -> int:
        """How long it takes until there is no debt, in rounded milliseconds; 0: there is none.

        With a rate of 0 that would be for ever; then it is the time in which tokens are saved up.
        """
        if not self.has_debt(rate, now_ms):
            return 0
        if rate <= 0:
            return self._span_ms
        exact_ms = -self._tokens / rate * 1000
        return math.floor(min(exact_ms, THROTTLE_MS_MAX - 1) + 0.5)

    def _fill(self, rate: float, now_ms: int) -> None:
        gained = rate * ((now_ms - self._last_ms) / 1000)
        self._tokens = min(self._burst(rate), self._tokens + gained)
        self._last_ms = now_ms

    def _burst(self, rate: float) -> float:
        return self._span_ms / 1000 * rate
