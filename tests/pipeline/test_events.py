"""Events are what they are for ever: the same seed, the same bytes."""

import hashlib
import itertools
import json
import subprocess
import sys
from collections import Counter

import pytest

from odradek.pipeline.events import BLOCK_EVENTS, KINDS, Event, Shape, block, events
from odradek.pipeline.times import iso

CLEAN = Shape(late=0, duplicate=0, malformed=0)
# Anyone who changes what is generated breaks comparisons of runs: change these on purpose only.
DIGESTS = {
    "orders": "8dbd3511b25b59ba",
    "clicks": "d4e45a2db50d3590",
    "sensors": "659c7d7aea35c525",
}


def digest(kind: str, seed: int, count: int) -> str:
    whole = hashlib.sha256()
    for event in events(kind, seed, count):
        whole.update(repr((event.key, event.value, event.headers, event.time_ms)).encode())
    return whole.hexdigest()[:16]


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_of_a_seed_never_change(kind: str) -> None:
    assert digest(kind, 7, 2500) == DIGESTS[kind]


@pytest.mark.slow
def test_another_process_makes_the_same() -> None:
    code = "from odradek.pipeline.events import *; print(list(events('orders', 3, 1500))[-1])"
    command = [sys.executable, "-c", code]
    other = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert other == str(list(events("orders", 3, 1500))[-1])


@pytest.mark.parametrize("kind", KINDS)
def test_seeds_and_blocks_differ(kind: str) -> None:
    assert digest(kind, 1, 100) != digest(kind, 2, 100)
    first, second = block(kind, 1, 0, Shape()), block(kind, 1, 1, Shape())
    assert [event.value for event in first] != [event.value for event in second]


def test_fewer_are_the_first_of_more() -> None:
    many = list(events("clicks", 5, 2 * BLOCK_EVENTS + 10))
    assert len(many) == 2 * BLOCK_EVENTS + 10
    assert list(events("clicks", 5, BLOCK_EVENTS + 1)) == many[: BLOCK_EVENTS + 1]
    assert list(itertools.islice(events("clicks", 5, None), len(many))) == many
    assert list(events("clicks", 5, 0)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_faults_come_as_often_as_asked(kind: str) -> None:
    shape = Shape(late=0.1, duplicate=0.05, malformed=0.2)
    counts = Counter(event.fault for event in events(kind, 11, 20_000, shape))
    assert counts["late"] == pytest.approx(2000, rel=0.15)
    assert counts["duplicate"] == pytest.approx(1000, rel=0.15)
    assert counts["malformed"] == pytest.approx(4000, rel=0.15)
    assert set(Counter(event.fault for event in events(kind, 11, 5000, CLEAN))) == {""}


def test_a_duplicate_repeats_an_earlier_event() -> None:
    def record(event: Event) -> tuple[object, ...]:
        return event.key, event.value, event.headers

    seen: set[tuple[object, ...]] = set()
    for event in events("orders", 2, 5000, Shape(duplicate=0.1)):
        assert (record(event) in seen) == (event.fault == "duplicate")
        seen.add(record(event))


def test_event_time_goes_on_except_for_late_events() -> None:
    shape = Shape(start_ms=1_000_000_000_000, events_per_second=10, late=0.05)
    for index, event in enumerate(events("orders", 4, 3000, shape)):
        behind_ms = shape.start_ms + index * 100 - event.time_ms
        if event.fault == "late":
            assert behind_ms >= 5 * 60_000
        elif event.fault == "":
            assert 0 <= behind_ms < 2000


@pytest.mark.slow
def test_what_is_not_malformed_can_be_read() -> None:
    for event in events("orders", 6, 3000):
        if event.fault != "malformed":
            assert event.value is not None
            order = json.loads(event.value)
            assert order["customer"].encode() == event.key
            assert order["ordered_at"] == iso(event.time_ms)
    for event in events("sensors", 6, 3000):
        if event.fault != "malformed":
            assert event.value is not None
            assert event.value.decode().split(",")[1] == iso(event.time_ms)


def test_times_are_iso() -> None:
    assert iso(1_767_225_600_007) == "2026-01-01T00:00:00.007Z"
    assert iso(-1) == "1969-12-31T23:59:59.999Z"
