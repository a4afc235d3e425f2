"""Letting simulated clusters live, one for each seed."""

import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import Final
from unittest import mock

from odradek.broker.core import fetch_session_slots
from odradek.broker.replication import fetcher
from odradek.storage.log import following

from .checks import Transitions
from .cluster import CRASHES_MIN, EVENTS_MIN, Outcome, SimCluster
from .isr_steps import IsrSteps
from .replicas import SimTaking

STAGED_BYTES_MIN: Final = 1
"""Whatever goes on where the log ends."""
LOOK_MS: Final = 400
"""Followers ask several times before all of their sessions is looked at."""


@contextlib.contextmanager
def simulated() -> Iterator[None]:
    """Production code runs without a loop; of what is logged nobody reads anything."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # it takes half of the time
    try:
        with (
            mock.patch.object(fetcher, "Taking", SimTaking),
            mock.patch.object(following, "STAGED_BYTES_MIN", STAGED_BYTES_MIN),
            mock.patch.object(fetch_session_slots, "LOOK_MS", LOOK_MS),
        ):
            yield
    finally:
        logging.disable(disabled)


def live_once(seed: int, transitions: Transitions | None = None) -> Outcome:
    """One cluster's life; whatever is wrong with it names the seed."""
    try:
        return SimCluster(seed, transitions or Transitions()).run()
    except Exception as error:
        error.add_note(f"ODRADEK_SIM_SEED={seed}")
        raise


def live(seeds: Iterable[int]) -> tuple[Transitions, IsrSteps]:
    """Let clusters live; what their controllers and leaders have done."""
    transitions, steps = Transitions(), IsrSteps()
    with simulated(), transitions.recorded(), steps.recorded():
        for seed in seeds:
            transitions.forget()
            outcome = live_once(seed, transitions)
            assert outcome.events >= EVENTS_MIN
            assert outcome.crashes >= CRASHES_MIN
            assert outcome.cuts >= 1
            assert outcome.controllers >= 2
    return transitions, steps


def catch(seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first seed whose cluster is not as it should be, and what is wrong with it."""
    with simulated():
        for seed in seeds:
            try:
                SimCluster(seed, Transitions()).run()
            except AssertionError as error:
                return seed, str(error)
    return None
