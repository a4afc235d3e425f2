"""Checkpoints as Spark 3.5 and 4.0 write them, against logs."""

from pathlib import Path

import pytest

from odradek.pipeline.checkpoints import (
    check_start,
    check_topics,
    deleted_topics,
    positions,
    read_checkpoint,
)
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.local_files import LocalFiles, local_path
from odradek.pipeline.offsets import Offsets

METADATA = '{"batchWatermarkMs":%d,"batchTimestampMs":1700000000000,"conf":{}}'


class Logs(Kafka):
    """A cluster whose logs begin and end where a test says."""

    def __init__(self, starts: Offsets, ends: Offsets) -> None:
        super().__init__("there:9092")
        self.starts, self.ends = starts, ends

    def earliest(self, topic: str) -> dict[int, int]:
        return self.starts.get(topic, {})

    def latest(self, topic: str) -> dict[int, int]:
        return self.ends.get(topic, {})


class Folder:
    """A checkpoint folder, written as Spark writes it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def planned(self, batch: int, *sources: str, watermark_ms: int = 0) -> None:
        self.file(f"offsets/{batch}", "\n".join(["v1", METADATA % watermark_ms, *sources]))

    def ended(self, batch: int) -> None:
        self.file(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')

    def file(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_the_newest_batches_are_found(folder: Folder) -> None:
    for batch in range(12):
        folder.planned(batch, f'{{"t":{{"1":{batch}0,"0":5}}}}', watermark_ms=batch)
        folder.file(f"offsets/.{batch}.crc", "x")
    for batch in range(11):
        folder.ended(batch)
    found = read_checkpoint(LocalFiles(folder.root))
    assert found is not None
    assert (found.batch_id, found.committed_batch_id, found.watermark_ms) == (11, 10, 11)
    assert found.offsets == {"t": {0: 5, 1: 110}}
    assert found.committed_offsets == {"t": {0: 5, 1: 100}}


def test_before_the_first_end_the_query_goes_on_at_its_very_start(folder: Folder) -> None:
    folder.file("metadata", '{"id":"x"}')
    folder.file("sources/0/0", '\0v1\n{"t":{"0":7}}')
    folder.planned(0, '{"t":{"0":9}}')
    found = read_checkpoint(LocalFiles(folder.root))
    assert found is not None
    assert found.committed_batch_id is None
    assert found.watermark_ms is None
    assert found.committed_offsets == {"t": {0: 7}}


def test_two_sources_of_a_topic_count_as_the_slower(folder: Folder) -> None:
    folder.planned(0, '{"t":{"0":9,"1":1}}', '{"t":{"0":3},"u":{"0":1}}', "-", '{"rate":1}')
    found = read_checkpoint(LocalFiles(folder.root))
    assert found is not None
    assert found.offsets == {"t": {0: 3, 1: 1}, "u": {0: 1}}


def test_a_checkpoint_without_batches_is_none(folder: Folder) -> None:
    assert read_checkpoint(LocalFiles(folder.root / "nowhere")) is None
    assert read_checkpoint(LocalFiles(folder.root)) is None
    folder.file("metadata", "{}")
    (folder.root / "offsets").mkdir()
    assert read_checkpoint(LocalFiles(folder.root)) is None


def test_a_checkpoint_that_a_kill_left_half_made_is_none(folder: Folder) -> None:
    folder.file(".metadata.51e0.tmp", "{")
    assert read_checkpoint(LocalFiles(folder.root)) is None
    folder.file("metadata", "{}")
    assert read_checkpoint(LocalFiles(folder.root)) is None


def test_another_folder_is_refused(folder: Folder) -> None:
    folder.file("part-0.parquet", "PAR1")
    with pytest.raises(PipelineError, match="is no checkpoint"):
        read_checkpoint(LocalFiles(folder.root))


@pytest.mark.parametrize("text", ["", "v1", "v3\n{}\n{}", "v1\n{}\n{", "v1\nnot json\n{}"])
def test_a_damaged_file_is_named(folder: Folder, text: str) -> None:
    folder.file("offsets/4", text)
    with pytest.raises(PipelineError, match=r"offsets/4 is (not as Spark|damaged)"):
        read_checkpoint(LocalFiles(folder.root))


@pytest.mark.parametrize("text", ["", "\0\0\0", '\0v1\n{"t":{"0":'])
def test_a_damaged_start_is_named(folder: Folder, text: str) -> None:
    folder.planned(0, '{"t":{"0":9}}')
    folder.file("sources/0/0", text)
    with pytest.raises(PipelineError, match=r"sources/0/0 is damaged"):
        read_checkpoint(LocalFiles(folder.root))


def test_a_checkpoint_of_another_topic_is_refused(folder: Folder) -> None:
    folder.planned(0, '{"t":{"0":9},"u":{"0":1}}')
    found = read_checkpoint(LocalFiles(folder.root))
    assert found is not None
    check_topics(found, ["t", "u", "new"], "here")
    with pytest.raises(PipelineError, match="the checkpoint here is of topic u, which this job"):
        check_topics(found, ["t"], "here")


def test_positions_tell_what_retention_took(folder: Folder) -> None:
    folder.planned(3, '{"t":{"0":5,"1":5,"2":5,"3":5}}')
    folder.ended(3)
    found = read_checkpoint(LocalFiles(folder.root))
    assert found is not None
    starts = {"t": {0: 0, 1: 8, 2: 0}}
    ends = {"t": {0: 9, 1: 10, 2: 4}}
    told = [(p.partition, p.state, p.lost, p.lag) for p in positions(found, starts, ends)]
    assert told == [
        (0, "ok", 0, 4),
        (1, "gone", 3, 2),
        (2, "beyond the end", 0, 0),
        (3, "no such partition", 0, None),
    ]


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (8, 10, r"3 offsets of t-0 from 5 on were removed .* --no-fail-on-data-loss"),
        (0, 4, r"t-0 ends at 4, before the 5 .* made anew"),
    ],
)
def test_a_start_that_would_miss_records_is_refused(
    folder: Folder, start: int, end: int, said: str
) -> None:
    files = LocalFiles(folder.root)
    logs = Logs({"t": {0: start}}, {"t": {0: end}})
    check_start(files, logs, ["t"])  # nothing was planned yet
    folder.planned(0, '{"t":{"0":5}}')
    folder.ended(0)
    with pytest.raises(PipelineError, match=said):
        check_start(files, logs, ["t"])
    check_start(files, logs, ["t"], fail_on_data_loss=False)
    check_start(files, Logs({"t": {0: 5}}, {"t": {0: 5}}), ["t"])
    with pytest.raises(PipelineError, match="is of topic t"):
        check_start(files, logs, ["u"], fail_on_data_loss=False)


def test_topics_of_a_pattern_that_were_deleted(folder: Folder) -> None:
    assert deleted_topics(["t-1", "t-2", "u"], ["t-1"], "t-.*") == ["t-2"]
    assert deleted_topics(["t-1", "t-2"], ["t-1"], None) == []
    folder.planned(0, '{"t-1":{"0":5},"t-2":{"0":7}}')
    folder.ended(0)
    files, logs = LocalFiles(folder.root), Logs({"t-1": {0: 0}}, {"t-1": {0: 5}})
    with pytest.raises(PipelineError, match=r"t-2-0, .* is not there any more; .* --no-fail-on"):
        check_start(files, logs, ["t-1"], pattern="t-.*")
    check_start(files, logs, ["t-1"], pattern="t-.*", fail_on_data_loss=False)
    with pytest.raises(PipelineError, match="is of topic t-2"):
        check_start(files, logs, ["t-1"], pattern="t-1.*", fail_on_data_loss=False)


def test_a_uri_of_this_machine_is_a_path() -> None:
    assert local_path("/a b") == Path("/a b")
    assert local_path("file:/a%20b") == Path("/a b")
    assert local_path("file:///a") == Path("/a")
    assert local_path("s3a://bucket/a") is None
