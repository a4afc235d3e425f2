"""Kills that took no effect are told of."""

from tests.lab.verify import effects
from tests.lab.verify.events import Controls, Event, Lab, View

KILLED = Lab("kill -9", "broker 1", 10.0, {})
BEFORE: list[Event] = [
    View(0, 0, 1, 4, [0, 1, 2], 5.0),
    View(2, 0, 1, 4, [0, 1, 2], 5.0),
    View(0, 1, 2, 7, [0, 1, 2], 5.0),
    Controls(0, 1, 5.0),
]
AFTER: list[Event] = [View(0, 0, 2, 5, [0, 2], 12.0), View(0, 1, 2, 8, [0, 2], 12.0)]


def test_a_kill_that_took_effect() -> None:
    events = [*BEFORE, KILLED, *AFTER]
    assert effects.missing(events) == []
    assert effects.led_by(events, 1, 10.0) == {0: 4}
    assert effects.led_by(events, 2, 13.0) == {0: 5, 1: 8}
    assert effects.in_sync(events, 1, 10.0) == {0, 1}
    assert effects.in_sync(events, 1, 13.0) == set()


def test_nobody_was_elected() -> None:
    found = effects.missing([*BEFORE, KILLED, AFTER[1], View(0, 0, -1, 5, [1], 12.0)])
    assert any("partition 0 is still in epoch 4" in text for text in found)


def test_it_stayed_in_sync() -> None:
    found = effects.missing([*BEFORE, KILLED, AFTER[0]])
    assert found == ["broker 1 was killed at 10.000, but never left the in-sync set of partition 1"]


def test_where_all_die_nobody_shrinks() -> None:
    before: list[Event] = [*BEFORE, *(Lab("start", f"broker {b}", 4.0, {}) for b in range(3))]
    others = [Lab("kill -9", f"broker {broker}", at_s, {}) for broker, at_s in ((0, 10.5), (2, 19))]
    back: list[Event] = [View(0, 0, 0, 6, [0, 1, 2], 30.0), View(0, 1, 0, 9, [0, 1, 2], 30.0)]
    assert effects.missing([*before, KILLED, *others, *back]) == []
    assert len(effects.missing([*before, KILLED, *others, back[0]])) == 1


def test_who_was_started_before_the_last_died_could_shrink() -> None:
    others: list[Event] = [
        Lab("kill -9", "broker 0", 10.5, {}),
        Lab("start", "broker 0", 15.0, {}),
        Lab("kill -9", "broker 2", 19.0, {}),
    ]
    back: list[Event] = [View(0, 0, 0, 6, [0, 1, 2], 30.0), View(0, 1, 0, 9, [0, 1, 2], 30.0)]
    found = effects.missing([*BEFORE, KILLED, *others, *back])
    assert [text for text in found if text.startswith("broker 1") and "never left" in text]


def test_the_controller_moves() -> None:
    assert not effects.controller_changed([*BEFORE, Controls(0, -1, 11.0)], 1, 10.0)
    assert effects.controller_changed([*BEFORE, Controls(0, 2, 11.0)], 1, 10.0)
