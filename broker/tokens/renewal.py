"""When a client's own token is renewed, and when a request for one is repeated.

Source: ExpiringCredentialRefreshingLogin and Retry in Kafka.
"""

from typing import Final, NamedTuple

AGAIN_AFTER_MS: Final = 10_000
"""How long it rests after a renewal that has failed, retries included."""
_AT_LEAST_MS: Final = 1_000
"""Not even a provider whose tokens end at once is asked without a pause."""


class Window(NamedTuple):
    """In which part of a token's life it is renewed."""

    factor: float
    jitter: float
    """A random part of this is added to `factor`."""
    age_ms_min: int
    rest_ms_min: int

    def renew_at_ms(
        self, issued_ms: int | None, expires_ms: int, now_ms: int, random: float
    ) -> int:
        """When to renew a token that has just come.  `random` is from 0 to 1.

        `age_ms_min` and `rest_ms_min` count only if there is time for both.
        """
        if expires_ms <= now_ms:
            return now_ms + AGAIN_AFTER_MS
        part = min(1.0, self.factor + self.jitter * random)
        if now_ms + self.age_ms_min + self.rest_ms_min > expires_ms:
            due_ms = now_ms + int((expires_ms - now_ms) * part)
        else:
            begins_ms = now_ms if issued_ms is None else issued_ms
            due_ms = begins_ms + int((expires_ms - begins_ms) * part)
            due_ms = min(due_ms, expires_ms - self.rest_ms_min)
            due_ms = max(due_ms, now_ms + self.age_ms_min)
        return max(due_ms, now_ms + _AT_LEAST_MS)


class Retries(NamedTuple):
    """How a request is repeated that may succeed later."""

    pause_ms: int
    time_ms_max: int
    """No try begins later than this after the first one."""

    def pause_after_ms(self, tries: int, spent_ms: int) -> int | None:
        """How long to wait after so many tries and so much time; None: give up."""
        left_ms = self.time_ms_max - spent_ms
        if left_ms <= 0:
            return None
        return min(self.pause_ms << min(tries - 1, 20), left_ms)
