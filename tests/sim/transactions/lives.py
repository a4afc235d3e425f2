"""Letting a coordinator of transactions live, one life for each seed."""

from collections.abc import Iterable
from typing import Final

from .clients import KEYS, Client
from .world import World

STEPS: Final = 200


def live_once(seed: int) -> World:
    """One life, with all checks; whatever is wrong names the seed."""
    world = World(seed)
    try:
        _live(world)
    except Exception as error:
        error.add_note(f"ODRADEK_SIM_SEED={seed}")
        raise
    return world


def _live(world: World) -> None:
    clients = [Client(world, key) for key in KEYS for _ in range(2)]
    chance = world.random.random
    for _ in range(STEPS):
        if (where := chance()) < 0.6:
            world.random.choice(clients).step()
        elif where < 0.76:
            world.commit_some()
        elif where < 0.94:
            world.deliver()
        elif where < 0.98:
            world.pass_some_time()
        elif where < 0.995:
            world.lose_leadership()
        else:
            world.delete()
        world.check()
    world.settle()


def catch(seeds: Iterable[int]) -> int | None:
    """The first seed in whose life something is wrong: a promise, or a transition that is none."""
    for seed in seeds:
        try:
            live_once(seed)
        except (AssertionError, KeyError):
            return seed
    return None
