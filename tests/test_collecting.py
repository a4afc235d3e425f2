"""The collector while something is imported, and afterwards."""

import gc
from collections.abc import Iterator

import pytest

from odradek.collecting import collecting_later


@pytest.fixture(autouse=True)
def _as_in_other_processes() -> Iterator[None]:
    """Until the end of the test: conftest.py has frozen what it has collected."""
    assert gc.isenabled()
    gc.unfreeze()
    yield
    gc.freeze()


def generation_of(wanted: object) -> int:
    [number] = [
        number
        for number in range(3)
        if any(found is wanted for found in gc.get_objects(generation=number))
    ]
    return number


def test_what_is_made_meanwhile_is_old_and_not_frozen() -> None:
    with collecting_later():
        assert not gc.isenabled()
        made: list[object] = []
    assert gc.isenabled()
    assert generation_of(made) > 0
    assert gc.get_freeze_count() == 0


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with collecting_later():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_others_have_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        with collecting_later():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
