"""What a wrong name was probably meant to be."""

from odradek.spelling import did_you_mean, nearest


def test_only_what_is_near_is_suggested() -> None:
    assert did_you_mean("num.partition", ["num.partitions", "log.dirs"]) == (
        ": did you mean num.partitions?"
    )
    assert did_you_mean("something", ["num.partitions"]) == did_you_mean("x", []) == ""
    assert nearest("ordr", {"orders"}) == "orders"
    assert nearest("ordr", {"orders"}, cutoff=0.99) == ""


def test_a_name_without_end_costs_nothing() -> None:
    assert nearest("a" * 1_000_000, ["a" * 250]) == "a" * 250
