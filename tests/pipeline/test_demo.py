"""`make demo`: what it shows is true, and shows what it is for."""

import re
import subprocess

import pytest

from tests.pipeline.demo import ORDER_COUNT
from tests.spark.environment import ROOT
from tests.spark.releases import present
from tests.spark.warm import environment

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.timeout(600)]


def test_it_shows_late_and_bad_orders_and_that_all_were_archived() -> None:
    line = [str(present("4.0").python), "-m", "tests.pipeline.demo"]
    done = subprocess.run(line, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout
    assert f"revenue-per-city: {ORDER_COUNT:,} records, " in shown
    assert counted("late,", shown)[-1] > 0, shown
    assert counted("malformed", shown) == counted("bad", shown)
    assert f"broker and archive are equal: {ORDER_COUNT:,} records in 3 partitions" in shown
    assert "broker and archive hold the same records" in shown.splitlines()[-2], shown


def counted(word: str, shown: str) -> list[int]:
    """The numbers before a word."""
    return [int(number.replace(",", "")) for number in re.findall(rf"([\d,]+) {word}", shown)]
