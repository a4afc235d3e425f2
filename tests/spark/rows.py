"""What the rows of jobs/batch.py are, known without Spark."""

import zlib
from typing import Any

Summary = list[dict[str, Any]]


def crc_sum(count: int) -> int:
    """The check sum over rows 0..count-1 that the jobs' summaries give."""
    return sum(zlib.crc32(_whole(number)) for number in range(count))


def _whole(number: int) -> bytes:
    return f"key-{number % 1000}|value-{number}|number={number},source=spark".encode()


def total(summary: Summary, column: str) -> int:
    """The sum of a column over all partitions."""
    return sum(line[column] for line in summary)


def assert_exactly(summary: Summary, count: int) -> None:
    """Rows 0..count-1 are there, each once, in partitions without gaps."""
    assert total(summary, "count") == count
    assert total(summary, "crc_sum") == crc_sum(count)
    for line in summary:
        assert line["first"] == 0
        assert_gapless(line)


def assert_gapless(line: dict[str, Any]) -> None:
    """Every offset of a partition from the first to the last was read once."""
    assert line["count"] == line["last"] - line["first"] + 1
    assert line["offset_sum"] == sum(range(line["first"], line["last"] + 1))
