"""Which ranges are read: limits of the log, options, indexes, filters."""

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.segments.planning import ReadRange, plan
from odradek.pipeline.segments.pushdown import Narrowing, narrow
from odradek.protocol.records import MarkerType
from odradek.storage.inspect.read_only import ReadOnlyFileSystem
from tests.pipeline.segment_files import TIME_MS, PartitionFiles, options, write_checkpoints

FILES = ReadOnlyFileSystem()
BATCHES = 40  # of ten records, in a segment


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Topic t of two partitions: 0 with three segments, the last open; 1 with a few records."""
    first, second = PartitionFiles(tmp_path, "t"), PartitionFiles(tmp_path, "t", 1)
    for number in range(3):
        for _ in range(BATCHES):
            first.batch()
        if number < 2:
            first.roll()
    second.batch(4)
    marks = {first.close().key: 1_100, second.close().key: 4}
    PartitionFiles(tmp_path, "__consumer_offsets").close()
    write_checkpoints(tmp_path, marks, {("t", 0): 25})
    return tmp_path


def ranges(data_dir: Path, **given: str) -> list[tuple[int, int, int | None]]:
    """(partition, start, end) of each range."""
    return [
        (r.partition, r.offset_start, r.offset_end) for r in plan(FILES, options(data_dir, **given))
    ]


def test_a_range_for_each_segment_up_to_the_high_watermark(data_dir: Path) -> None:
    assert plan(FILES, options(data_dir))[0] == ReadRange(f"{data_dir}/t-0", "t", 0, 25, 400)
    assert ranges(data_dir) == [(0, 25, 400), (0, 400, 800), (0, 800, 1_100), (1, 0, 4)]


def test_to_the_end_of_the_log(data_dir: Path) -> None:
    assert ranges(data_dir, toLogEnd="true")[2:] == [(0, 800, None), (1, 0, None)]
    (data_dir / "replication-offset-checkpoint").unlink()
    assert len(ranges(data_dir, toLogEnd="true")) == 4
    with pytest.raises(PipelineError, match="toLogEnd"):
        plan(FILES, options(data_dir))


def test_a_partition_without_a_high_watermark(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_checkpoints(data_dir, {("t", 1): 4})
    with caplog.at_level(logging.WARNING):
        assert ranges(data_dir) == [(1, 0, 4)]
    assert "no high watermark in the checkpoint" in caplog.text


def test_large_segments_are_cut_where_the_index_points(data_dir: Path) -> None:
    cut = ranges(data_dir, partitions="0", minPartitions="12")
    assert 10 <= len(cut) <= 14
    assert cut[0][1] == 25 and cut[-1][2] == 1_100
    assert [end for _, _, end in cut[:-1]] == [start for _, start, _ in cut[1:]]
    assert all(start % 10 == 0 for _, start, _ in cut[1:]), "batches have ten records"
    assert len(ranges(data_dir, partitions="0", maxPartitionBytes="1k")) > 3 * len(cut)


def test_a_segment_without_indexes_is_one_range(data_dir: Path) -> None:
    for index in (data_dir / "t-0").glob("*index"):
        index.unlink()
    assert len(ranges(data_dir, partitions="0", minPartitions="12")) == 3


def test_padded_and_lying_indexes_are_only_hints(data_dir: Path) -> None:
    given = {"partitions": "0", "startingTimestamp": str(TIME_MS + 905)}
    assert ranges(data_dir, **given) == [(0, 905, 1_100)]
    for name in (f"{800:020d}.index", f"{800:020d}.timeindex"):
        path = data_dir / "t-0" / name
        path.write_bytes(path.read_bytes() + bytes(100_000))
    assert ranges(data_dir, **given) == [(0, 905, 1_100)]
    for path in (data_dir / "t-0").glob("*index"):
        path.write_bytes(bytes(byte ^ 0x15 for byte in path.read_bytes()))
    assert ranges(data_dir, **given) == [(0, 905, 1_100)]


def test_offsets(data_dir: Path) -> None:
    given = {
        "startingOffsets": '{"t": {"0": 410, "1": -2}}',
        "endingOffsets": '{"t": {"0": 423, "1": -1}}',
    }
    assert ranges(data_dir, **given) == [(0, 410, 423), (1, 0, 4)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffsets": '{"t": {"0": 410}}'}, "startingOffsets does not name t-1"),
        ({"startingOffsets": '{"t": {"0": 1, "1": 0, "9": 0}}'}, "names t-9, which is not read"),
        ({"startingOffsets": '{"t": {"0": 24, "1": 0}}'}, "offset 24 of t-0 is not there.*25 up"),
        ({"endingOffsets": '{"t": {"0": 1101, "1": 0}}'}, "offset 1101 of t-0.*up to 1100"),
        ({"topics": "u"}, "no topic u: it has __consumer_offsets, t"),
        ({"assign": '{"t": [7]}'}, "no partition t-7"),
        ({"topics": "t", "partitions": "7"}, "no partition that topics and partitions name"),
        ({"topics": "t", "partitions": "0,7,9"}, "no partition 7, 9 of any topic that is read"),
        ({"startingTimestamp": str(TIME_MS + 500)}, "no offset matched: t-1 has no record"),
        ({"path": "/nowhere/at/all"}, "no directory /nowhere/at/all"),
    ],
)
def test_what_is_not_there(data_dir: Path, given: dict[str, str], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        ranges(data_dir, **given)


def test_what_is_lost_may_be_passed_over(data_dir: Path) -> None:
    given = {
        "startingOffsets": '{"t": {"0": 3, "1": 0}}',
        "endingOffsets": '{"t": {"0": 5000, "1": 2}}',
        "failOnDataLoss": "false",
    }
    assert ranges(data_dir, **given) == [(0, 25, 400), (0, 400, 800), (0, 800, 1_100), (1, 0, 2)]


def test_times(data_dir: Path) -> None:
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert ranges(data_dir, startingTimestamp=str(TIME_MS + 403), **latest) == [
        (0, 403, 800),
        (0, 800, 1_100),
    ]
    times = {
        "startingOffsetsByTimestamp": f'{{"t": {{"0": {TIME_MS + 399}, "1": 0}}}}',
        "endingOffsetsByTimestamp": f'{{"t": {{"0": {TIME_MS + 401}, "1": {TIME_MS + 9}}}}}',
    }
    assert ranges(data_dir, **times) == [(0, 399, 400), (0, 400, 401), (1, 0, 4)]


def test_two_directories_of_one_broker_and_of_two(data_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    mark = PartitionFiles(other, "u").close().key
    write_checkpoints(other, {mark: 0})
    paths = {"path": "", "paths": f'["{data_dir}", "{other}"]'}
    assert len(ranges(data_dir, **paths)) == 4
    PartitionFiles(other, "t", 1).close()
    write_checkpoints(other, {("t", 1): 0})
    with pytest.raises(PipelineError, match="one broker's directories at a time"):
        ranges(data_dir, **paths)


def test_committed_records_end_before_an_open_transaction(tmp_path: Path) -> None:
    files = PartitionFiles(tmp_path, "t")
    files.transactional(7)
    files.end_transaction(7, MarkerType.COMMIT)
    files.transactional(8)
    files.batch()
    write_checkpoints(tmp_path, {files.close().key: files.next_offset})
    assert ranges(tmp_path) == [(0, 0, 21)]
    assert ranges(tmp_path, isolation="read_committed") == [(0, 0, 6)]
    assert ranges(tmp_path, isolation="read_committed", toLogEnd="true") == [(0, 0, 6)]


class EqualTo:
    def __init__(self, column: str, value: object) -> None:
        self.attribute, self.value = (column,), value


class In(EqualTo):
    pass


class GreaterThanOrEqual(EqualTo):
    pass


class LessThan(EqualTo):
    pass


class StringContains(EqualTo):
    pass


def test_filters_narrow_what_is_read(data_dir: Path) -> None:
    narrowing = narrow(
        [
            EqualTo("topic", "t"),
            In("partition", (0, 5)),
            GreaterThanOrEqual("offset", 450),
            LessThan("offset", 470),
            StringContains("topic", "x"),
            EqualTo("value", b"v"),
        ]
    )
    assert narrowing == Narrowing(frozenset({"t"}), frozenset({0, 5}), 450, 469)
    found = plan(FILES, options(data_dir), narrowing)
    assert [(r.offset_start, r.offset_end) for r in found] == [(450, 470)]
    assert plan(FILES, options(data_dir), narrow([EqualTo("topic", "u")])) == []


def test_old_segments_are_left_out_by_a_filter(data_dir: Path) -> None:
    at = datetime.fromtimestamp((TIME_MS + 401) / 1000, UTC)
    narrowing = narrow([GreaterThanOrEqual("timestamp", at)])
    found = plan(FILES, options(data_dir, partitions="0"), narrowing)
    assert [(r.offset_start, r.offset_end) for r in found] == [(400, 800), (800, 1_100)]
    naive = narrow([GreaterThanOrEqual("timestamp", at.replace(tzinfo=None))])
    assert naive == Narrowing()


def test_nothing_is_changed(data_dir: Path) -> None:
    def state() -> dict[Path, tuple[int, bytes]]:
        files = (path for path in data_dir.rglob("*") if path.is_file())
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = state()
    plan(FILES, options(data_dir, isolation="read_committed", startingTimestamp="0"))
    assert state() == before
