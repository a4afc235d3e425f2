"""Rates and token buckets beside those of Kafka 3.9.2."""

from typing import Final, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from odradek.broker.core.sampled_rate import THROTTLE_MS_MAX, FullRate, SampledRate
from odradek.broker.core.token_bucket import TokenBucket
from tests.kafka.java import run_program

pytestmark = pytest.mark.java

CASES: Final = 400
START_MS: Final = 1_000_000_000
"""As of Kafka's clock: its token bucket is full only if its clock does not begin at 0."""


class Case(NamedTuple):
    kind: str
    samples: int
    window_ms: int
    bound: float
    steps: tuple[tuple[int, int], ...]

    def line(self) -> str:
        """What the Java program reads."""
        steps = ",".join(f"{now_ms}:{value}" for now_ms, value in self.steps)
        return "\t".join(map(str, [*self[:4], steps]))

    def ours(self) -> list[tuple[float, int]]:
        """What we measure after each step, and the throttle."""
        return list(self.rate() if self.kind in ("full", "simple") else self.bucket())

    def rate(self) -> list[tuple[float, int]]:
        kind = FullRate if self.kind == "full" else SampledRate
        rate, answers = kind(self.samples, self.window_ms), []
        for now_ms, value in self.steps:
            rate.record(value, now_ms)
            answers.append((rate.measure(now_ms), rate.throttle_ms(self.bound, now_ms)))
        return answers

    def bucket(self) -> list[tuple[float, int]]:
        bucket, answers = TokenBucket(self.samples * self.window_ms), []
        for now_ms, value in self.steps:
            throttle_ms = bucket.throttle_ms(self.bound, now_ms)
            if self.kind == "permissive" or not bucket.has_debt(self.bound, now_ms):
                bucket.take(value, self.bound, now_ms)
            if self.kind == "permissive":
                throttle_ms = bucket.throttle_ms(self.bound, now_ms)
            answers.append((bucket._tokens, throttle_ms))
        return answers


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Values that come densely, and now and then after a long silence; some are taken back."""
    kind = draw(st.sampled_from(["full", "full", "simple", "permissive", "strict"]))
    window_ms = draw(st.sampled_from([1000, 1000, 3000, 250]))
    pause = st.sampled_from([0, 1, window_ms // 3, window_ms - 1, window_ms, 5 * window_ms, 60_000])
    now_ms, steps = START_MS, []
    for _ in range(draw(st.integers(1, 25))):
        now_ms += draw(pause | st.integers(0, 2 * window_ms))
        value = draw(st.integers(0, 3000) | st.just(0))
        steps.append((now_ms, value))
        if kind == "full" and draw(st.integers(0, 5)) == 0:
            steps.append((now_ms, -value))
    bound = draw(st.sampled_from([0.5, 1.0, 100.0, 333.3, 5000.0]))
    return Case(kind, draw(st.integers(1, 12)), window_ms, bound, tuple(steps))


def kafka(drawn: list[Case]) -> list[list[tuple[float, int]]]:
    lines = "".join(f"{case.line()}\n" for case in drawn)
    answers = run_program("3.9.2", "Rates", stdin=lines.encode()).stdout.splitlines()
    return [
        [(float(measured), int(ms)) for measured, ms in (pair.split(":") for pair in line.split())]
        for line in answers
    ]


def test_thousands_of_rates() -> None:
    drawn: list[Case] = []

    @settings(
        max_examples=CASES,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def draw(case: Case) -> None:
        drawn.append(case)

    draw()
    throttled = dict.fromkeys((case.kind for case in drawn), 0)
    for case, answers in zip(drawn, kafka(drawn), strict=True):
        for number, (ours, theirs) in enumerate(zip(case.ours(), answers, strict=True)):
            assert ours[0] == pytest.approx(theirs[0], rel=1e-9, abs=1e-6), (case, number)
            assert ours[1] == min(theirs[1], THROTTLE_MS_MAX), (case, number)
            throttled[case.kind] += ours[1] > 0
    assert min(throttled.values()) > 25, throttled
