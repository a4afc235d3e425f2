"""How fast clients may connect."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.core.creation_rate import ADDRESSES_MAX, CreationRates, dotted

RATE = "connection_creation_rate"


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(bound=st.integers(1, 200), tries_per_second=st.integers(1, 1000))
def test_the_rate_of_the_broker_is_kept(bound: int, tries_per_second: int) -> None:
    rates, accepted, free_ms = CreationRates(11, 1000), 0, 0
    for number in range(40 * tries_per_second):
        now_ms = number * 1000 // tries_per_second
        if now_ms >= free_ms:
            free_ms = now_ms + rates.delay_ms("", bound, now_ms)
            accepted += 1
    # The burst: what may come in eleven samples comes at once, and is waited for afterwards.
    assert accepted <= bound * (40 + 11) + 1
    assert accepted >= min(40 * tries_per_second, bound * 40) * 0.9 - 1


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(quota=st.integers(1, 50), tries_per_second=st.integers(1, 200))
def test_an_address_that_never_stops_trying_gets_its_quota(
    quota: int, tries_per_second: int
) -> None:
    rates, accepted = CreationRates(11, 1000), 0
    rates.set_quota("10.0.0.1", {RATE: quota})
    for number in range(40 * tries_per_second):
        accepted += not rates.refusal_ms("10.0.0.1", number * 1000 // tries_per_second)
    assert accepted <= quota * (40 + 11) + 1
    assert accepted >= min(40 * tries_per_second, quota * 40) * 0.9 - 1


def test_whose_quota_counts() -> None:
    rates = CreationRates(2, 1000)
    rates.set_quota(None, {RATE: 1})
    rates.set_quota("10.9", {RATE: 3})
    assert [rates.refusal_ms("10.0.0.1", 0) for _ in range(3)] == [0, 1000, 1000]
    assert [rates.refusal_ms("10.0.0.9", 0) for _ in range(4)] == [0, 0, 0, 333]
    assert rates.refusal_ms("10.0.0.2", 0) == 0, "each address has its own rate"
    assert rates.set_quota(None, {})
    assert not rates.set_quota(None, {"another": 1.0})
    assert [rates.refusal_ms("10.0.0.1", 0) for _ in range(3)] == [0, 0, 0]
    rates.clear_quotas()
    assert [rates.refusal_ms("10.0.0.9", 0) for _ in range(3)] == [0, 0, 0]


def test_no_connection_at_all() -> None:
    rates = CreationRates(11, 1000)
    rates.set_quota(None, {RATE: 0})
    assert [rates.refusal_ms("::1", now_ms) for now_ms in range(0, 3000, 100)] == [1000] * 30


def test_what_is_taken_back_does_not_count() -> None:
    rates = CreationRates(11, 1000)
    for _ in range(1000):
        rates.delay_ms("A", 1, 0)
        rates.take_back("A", 0)
    assert rates.delay_ms("B", 0, 0) == 1000
    assert [rates.delay_ms("A", 1, 0) for _ in range(12)] == [0] * 10 + [1000] * 2


@pytest.mark.slow
def test_many_addresses_take_little_memory() -> None:
    rates = CreationRates(11, 1000)
    rates.set_quota(None, {RATE: 5})
    for number in range(ADDRESSES_MAX + 50):
        rates.refusal_ms(f"2001:db8::{number:x}", 0)
    assert len(rates._of_addresses) == ADDRESSES_MAX


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("10.1", "10.0.0.1"),
        ("10.1.258", "10.1.1.2"),
        ("167772161", "10.0.0.1"),
        ("010.1", "10.0.0.1"),
        ("4294967296", "4294967296"),
        ("1.2.3.4.5", "1.2.3.4.5"),
        ("::1", "::1"),
        ("host", "host"),
    ],
)
def test_short_addresses(address: str, expected: str) -> None:
    assert dotted(address) == expected
