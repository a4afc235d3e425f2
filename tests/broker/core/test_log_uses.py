"""What may begin with a log while something is done to it."""

from pathlib import Path
from typing import cast

from odradek.broker.core.log_uses import NO_USE, Act, LogUses, Use
from odradek.storage.log.log import Log
from tests.support.traces import check_trace

ONE, OTHER = cast(Log, "one"), cast(Log, "other")


def test_what_may_begin() -> None:
    lines = [" " * 16 + "".join(f"{use.name:10}" for use in Use)]
    for act in Act:
        row = f"{act.name:16}"
        for use in Use:
            uses = LogUses()
            uses.begin(ONE, use)
            assert uses.may(act, OTHER)
            row += f"{'yes' if uses.may(act, ONE) else '-':10}"
        lines.append(row)
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    check_trace(Path(__file__).parent / "traces" / "log_uses.txt", text)


def test_uses_begin_and_end() -> None:
    uses = LogUses()
    with uses.during(ONE, Use.MOVES):
        uses.begin(ONE, Use.CUT)
        uses.begin(OTHER, Use.CUT)
        assert uses.having(Use.MOVES) == [ONE]
    assert uses.having(Use.MOVES) == []
    assert uses.having(Use.CUT) == [ONE, OTHER]
    uses.end(ONE, Use.CUT)
    uses.end(ONE, Use.CUT)
    assert not uses.may(Act.APPEND, OTHER)
    uses.end(OTHER, Use.CUT)
    assert uses.having(~NO_USE) == []
