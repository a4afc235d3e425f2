"""A killed process loses nothing that its store had answered."""

import subprocess
import sys
from pathlib import Path

import pytest

from odradek.broker.coordination.journal import SqliteJournal
from odradek.broker.coordination.tree import Tree

CHILD = Path(__file__).with_name("crash_child.py")
ROUNDS = 12
WORKERS = 4


@pytest.mark.slow
def test_what_was_answered_is_there_after_a_crash(tmp_path: Path) -> None:
    rounds = [str(round_) for round_ in range(ROUNDS)]
    child = subprocess.run(
        [sys.executable, CHILD, tmp_path, *rounds], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    answers = sum(check_round(tmp_path, round_) for round_ in rounds)
    assert answers > ROUNDS  # else every round ended before it began


def check_round(directory: Path, round_: str) -> int:
    journal = SqliteJournal(directory / f"{round_}.sqlite3")
    saved = journal.open()
    journal.close()
    tree = Tree(saved.nodes, saved.zxid)  # checks that parents and numbers agree
    lines = (directory / f"{round_}.acked").read_text().split("\n")[:-1]
    for path, count in (line.split() for line in lines):
        data, _ = tree.get(f"/{path}")
        assert path.startswith("queue/") or int(data) >= int(count), f"round {round_}: {path}"
    for worker in range(WORKERS):
        name = f"/worker{worker}"
        if tree.exists(name):
            assert tree.get(f"{name}/left")[0] == tree.get(f"{name}/right")[0]
    return len(lines)
