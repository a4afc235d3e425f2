"""Which notifications are new, by their names."""

from odradek.broker.coordination.notifications import newer, newest

PREFIX = "change_"


def test_those_with_greater_numbers_are_new_in_order() -> None:
    names = [f"{PREFIX}{number:010}" for number in (7, 9, 10, 8)]
    assert newest(names, PREFIX) == 10
    assert newer(names, PREFIX, 8) == [(9, names[1]), (10, names[2])]
    assert [number for number, _ in newer(names, PREFIX, -1)] == [7, 8, 9, 10]
    assert newer(names, PREFIX, 10) == []


def test_other_names_are_ignored() -> None:
    odd = ("a0000000003", "00000000004", "-000000005", "", "\u0661" * 10)
    names = ["x", "zzz", *(PREFIX + each for each in odd), f"{PREFIX}0000000001"]
    assert newest(names, PREFIX) == 1
    assert newer(names, PREFIX, -1) == [(1, names[-1])]
    assert newest([], PREFIX) == newest(["x"], PREFIX) == -1
