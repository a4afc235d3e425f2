"""What an archive's job decides before Spark does anything: offsets, options, files to compact."""

import json
from collections.abc import Sequence

import pytest

from odradek.pipeline import archive as archive_job
from odradek.pipeline.archive import ArchiveJob, archive, check_job
from odradek.pipeline.archive_commits import StagedFile
from odradek.pipeline.archive_files import groups
from odradek.pipeline.archive_offsets import (
    batch_ranges,
    check_archived_topics,
    check_deleted_topics,
    check_not_ahead,
    check_offsets,
    starting_offsets,
    wanted,
)
from odradek.pipeline.archive_writing import check_complete
from odradek.pipeline.checkpoints import Checkpoint
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.manifest import ArchivedFile, Commit, OffsetRange
from odradek.pipeline.offsets import TopicPartition
from odradek.pipeline.session import SparkOptions

T0 = TopicPartition("t", 0)


def test_a_batch_goes_from_where_the_last_one_ended() -> None:
    checkpoint = Checkpoint(3, 2, {"t": {0: 30, 1: 7}}, {"t": {0: 20}}, None)
    assert batch_ranges(checkpoint) == [OffsetRange("t", 0, 20, 30), OffsetRange("t", 1, 0, 7)]


@pytest.mark.parametrize(
    ("end", "left"),
    [(None, (20, 30)), (20, (20, 30)), (25, (25, 30)), (30, None), (99, None)],
)
def test_a_batch_is_cut_to_what_the_archive_lacks(
    end: int | None, left: tuple[int, int] | None
) -> None:
    ends = {} if end is None else {T0: end}
    expected = [] if left is None else [OffsetRange("t", 0, *left)]
    assert wanted([OffsetRange("t", 0, 20, 30)], ends, gaps_allowed=False) == expected


def test_nothing_asked_is_nothing_wanted() -> None:
    assert wanted([OffsetRange("t", 0, 20, 20)], {T0: 20}, gaps_allowed=False) == []


@pytest.mark.parametrize("gaps_allowed", [False, True])
def test_a_topic_that_is_made_anew_while_it_is_archived(gaps_allowed: bool) -> None:
    back = [OffsetRange("t", 0, 30, 5), OffsetRange("t", 1, 0, 9)]
    with pytest.raises(PipelineError, match=r"t-0 ended at offset 30 and now at 5: it was made an"):
        wanted(back, {T0: 30}, gaps_allowed=gaps_allowed)


def test_a_checkpoint_that_is_ahead_is_refused() -> None:
    batch = [OffsetRange("t", 0, 20, 30)]
    with pytest.raises(PipelineError, match=r"at offset 20 of t-0, .* ends at 19: remove the ch"):
        wanted(batch, {T0: 19}, gaps_allowed=False)
    assert wanted(batch, {T0: 19}, gaps_allowed=True) == batch


def test_a_partition_is_known_from_its_first_batch_on() -> None:
    empty, batch = OffsetRange("t", 1, 9, 9), OffsetRange("t", 0, 20, 30)
    assert wanted([batch, empty], {T0: 20}, gaps_allowed=False) == [batch, empty]
    assert wanted([batch, empty], {T0: 30}, gaps_allowed=False) == []


def test_a_checkpoint_of_another_archive() -> None:
    def check(offset: int, ends: dict[TopicPartition, int], *, batch: int | None = 4) -> None:
        check_not_ahead(Checkpoint(5, batch, {}, {"t": {0: offset}}, None), ends, "CHECK", "DIR")

    check(50, {T0: 50})
    check(40, {T0: 50})
    check(0, {})
    check(50, {}, batch=None)  # it began there
    with pytest.raises(PipelineError, match=r"CHECK is at offset 51 of t-0, .* DIR ends at 50: it"):
        check(51, {T0: 50})
    with pytest.raises(PipelineError, match="DIR has none of it"):
        check(1, {})


def test_what_the_cluster_must_still_have() -> None:
    def check(earliest: int, latest: int, *, fail: bool = True) -> None:
        topics = {"t": {0: earliest}}, {"t": {0: latest}}
        check_offsets({T0: 50, TopicPartition("gone", 0): 9}, *topics, fail_on_data_loss=fail)

    check(0, 50)
    check(50, 99)
    with pytest.raises(PipelineError, match=r"offsets 50 to 59 of t-0 are no longer .*retention"):
        check(60, 99)
    check(60, 99, fail=False)
    with pytest.raises(PipelineError, match=r"t-0 up to offset 50, .* ends at 49: this is another"):
        check(0, 49, fail=False)
    with pytest.raises(PipelineError, match=r"up to offset 50, .* ends at 0"):
        check_offsets({T0: 50}, {"t": {}}, {"t": {}}, fail_on_data_loss=True)


def test_an_archive_keeps_its_topics() -> None:
    check_archived_topics([], ["t"], None, "DIR")
    check_archived_topics(["t"], ["t", "u"], None, "DIR")
    check_archived_topics(["t-1"], [], "t-.*", "DIR")
    with pytest.raises(PipelineError, match=r"DIR is an archive of t, and not of u only: give"):
        check_archived_topics(["t"], ["u"], None, "DIR")
    with pytest.raises(PipelineError, match=r"an archive of t, and not of topics that match u"):
        check_archived_topics(["t"], ["u"], "u", "DIR")


def test_topics_of_a_pattern_that_were_deleted() -> None:
    check_deleted_topics([], fail_on_data_loss=True)
    check_deleted_topics(["t-2"], fail_on_data_loss=False)
    with pytest.raises(PipelineError, match=r"t-2 was deleted .* --no-fail-on-data-loss"):
        check_deleted_topics(["t-2"], fail_on_data_loss=True)


def test_a_new_checkpoint_begins_where_the_archive_ends() -> None:
    partitions = {"t": 2, "u": 1}
    assert starting_offsets("earliest", {}, partitions) == "earliest"

    def starts(asked: str) -> object:
        return json.loads(starting_offsets(asked, {T0: 50}, partitions))

    assert starts("earliest") == {"t": {"0": 50, "1": -2}, "u": {"0": -2}}
    assert starts("latest") == {"t": {"0": 50, "1": -1}, "u": {"0": -1}}
    assert starts('{"u": {"0": 5}}') == {"t": {"0": 50, "1": -2}, "u": {"0": 5}}
    begun = starting_offsets('{"t": {"1": 7}}', {}, partitions)
    assert json.loads(begun) == {"t": {"0": -2, "1": 7}, "u": {"0": -2}}
    for other in ('{"t": {"2": 7}}', '{"x": {"0": 7}}'):
        with pytest.raises(PipelineError, match="and not all of them are read"):
            starts(other)


@pytest.mark.parametrize("asked", ["first", "{", "[]", '{"t": 5}', '{"t": {"0": null}}'])
def test_starting_offsets_that_nobody_understands(asked: str) -> None:
    with pytest.raises(PipelineError, match=r"is neither earliest, latest nor JSON such as"):
        starting_offsets(asked, {}, {"t": 1})


@pytest.mark.parametrize("asked", ["first", '{"t": {"1": 7}}'])
def test_starting_offsets_are_refused_before_the_archive_is_claimed(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a typing error would end the job that is at work on it."""

    class Cluster(Kafka):
        def topics(self, names: Sequence[str] = (), *, pattern: str | None = None) -> list[str]:
            return list(names)

        def partitions(self, topic: str) -> int:
            return 1

    monkeypatch.setattr(archive_job, "start", lambda *_: pytest.fail("Spark was started"))
    with pytest.raises(PipelineError, match="--starting-offsets"):
        archive(ArchiveJob("DIR", ["t"], starting_offsets=asked), SparkOptions(), Cluster("h:1"))


@pytest.mark.parametrize("by", [("date",), ("topic", "date", "date"), ("topic", "key"), ("",)])
def test_folders_that_cannot_be(by: tuple[str, ...]) -> None:
    with pytest.raises(PipelineError, match="--partition-by"):
        check_job(ArchiveJob("DIR", ["t"], partition_by=by))


def test_a_folder_that_spark_takes_for_a_pattern() -> None:
    with pytest.raises(PipelineError, match=r"a\[1\] cannot be an archive's folder"):
        check_job(ArchiveJob("a[1]", ["t"]))


def test_small_files_become_one_in_their_order() -> None:
    def file(path: str, size: int) -> ArchivedFile:
        return ArchivedFile(path, "t", size, size)

    commits = [
        Commit(0, (), (file("a/1", 4), file("b/1", 4), file("c/1", 9))),
        Commit(1, (), (file("a/2", 4), file("a/3", 5), file("b/2", 20))),
        Commit(2, (), (file("a/4", 4), file("a/5", 6), file("c/2", 9))),
    ]
    found = groups(commits, 10)
    assert {
        folder: [[f.path for f in group] for group in bins] for folder, bins in found.items()
    } == {"a": [["a/1", "a/2"], ["a/3", "a/4"]]}
    assert groups(commits, 1) == {}


class Batch:
    """Records in Kafka, and how often they were counted."""

    def __init__(self, records: int) -> None:
        self.records = records
        self.counts = 0

    def count(self) -> int:
        self.counts += 1
        return self.records


@pytest.mark.parametrize(("staged", "counts"), [((60, 40), 0), ((60, 30), 1), ((), 1)])
def test_what_spark_wrote_is_all_there(staged: tuple[int, ...], counts: int) -> None:
    """Kafka is asked only if there are fewer records than offsets."""
    batch = Batch(sum(staged))
    files = [StagedFile(f"s/{count}", "t", count, 1) for count in staged]
    parts = [OffsetRange("t", 0, 20, 80), OffsetRange("t", 1, 0, 40)]
    check_complete(batch, files, parts, "DIR")
    assert batch.counts == counts


@pytest.mark.parametrize("staged", [[], [StagedFile("s/1", "t", 59, 1)]])
def test_files_that_executors_have_for_themselves(staged: list[StagedFile]) -> None:
    parts = [OffsetRange("t", 0, 20, 80)]
    with pytest.raises(PipelineError, match=r"of 60 records .* only \d+ are in DIR: its executors"):
        check_complete(Batch(60), staged, parts, "DIR")
