"""What follows from an archive's commits, and what is said about damaged ones."""

import json
from dataclasses import replace

import pytest

from odradek.pipeline.audit_archive import archive_state
from odradek.pipeline.documents import encode
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.manifest import (
    About,
    Archive,
    ArchivedFile,
    Commit,
    OffsetRange,
    commit_path,
    ends,
    live,
    merged,
    read_commits,
    snapshot,
)
from odradek.pipeline.offsets import Spans
from tests.pipeline.disk import Disk, Process

A = ArchivedFile("topic=t/a.parquet", "t", 5, 100)
B = ArchivedFile("topic=t/b.parquet", "t", 3, 60)
BOTH = ArchivedFile("topic=t/ab.parquet", "t", 8, 150)
COMMITS = [
    Commit(0, (OffsetRange("t", 0, 10, 15), OffsetRange("t", 1, 0, 0)), (A,)),
    Commit(1, (OffsetRange("t", 0, 15, 20),), (B,)),
    Commit(2, (), (BOTH,), removed=(A.path, B.path)),
]


def archive_of(commits: list[Commit]) -> Archive:
    disk = Disk()
    disk.content["_odradek/archive.json"] = encode(About().to_json())
    for commit in commits:
        disk.content[commit_path(commit.number)] = encode(commit.to_json())
    return Archive(Process(disk))


def test_a_commit_survives_its_file() -> None:
    for commit in COMMITS:
        assert Commit.from_json(json.loads(encode(commit.to_json()))) == commit


HELD = replace(A, spans={0: (10, 15), 12: (0, 1)})


def test_a_commit_says_which_offsets_lie_in_its_files() -> None:
    written = json.loads(encode(Commit(0, (), (HELD, B)).to_json()))
    read = Commit.from_json(written)
    assert [file.spans for file in read.files] == [HELD.spans, {}]
    assert [file.spans for file in snapshot([read]).files] == [HELD.spans, {}]
    # Releases that know no spans take `files` as they are, and wrote none.
    assert {*written["files"][0]} == {"path", "topic", "records", "size_bytes"}
    del written["spans"]
    assert [file.spans for file in Commit.from_json(written).files] == [{}, {}]


@pytest.mark.parametrize("spans", [5, {A.path: 5}, {A.path: {"0": 5}}, {A.path: {"x": [0, 1]}}])
def test_spans_that_are_none_are_damage(spans: object) -> None:
    archive = archive_of([])
    assert isinstance(archive.files, Process)
    written = {**Commit(0, (), (A,)).to_json(), "spans": spans}
    archive.files.content[commit_path(0)] = encode(written)
    with pytest.raises(PipelineError, match=r"commits/0{20}\.json cannot be read"):
        archive.commits()


@pytest.mark.parametrize(
    ("wanted", "held"),
    [
        ({0: (0, 10)}, False),
        ({0: (0, 11)}, True),
        ({0: (14, 99)}, True),
        ({0: (15, 99)}, False),
        ({0: (12, 12)}, False),
        ({1: (0, 99)}, False),
        ({1: (0, 99), 12: (0, 99)}, True),
    ],
)
def test_a_file_that_holds_none_of_it_need_not_be_read(wanted: Spans, held: bool) -> None:
    assert HELD.may_hold(wanted) == held
    assert A.may_hold(wanted), "nobody knows"


def test_ranges_that_touch_are_one() -> None:
    ranges = [
        OffsetRange("t", 0, 5, 9),
        OffsetRange("t", 1, 0, 3),
        OffsetRange("t", 0, 0, 5),
        OffsetRange("t", 0, 11, 12),
        OffsetRange("s", 0, 5, 9),
    ]
    assert merged(ranges) == [
        OffsetRange("s", 0, 5, 9),
        OffsetRange("t", 0, 0, 9),
        OffsetRange("t", 0, 11, 12),
        OffsetRange("t", 1, 0, 3),
    ]
    with pytest.raises(ValueError, match="offset 8 of t-0 was committed twice"):
        merged([*ranges, OffsetRange("t", 0, 8, 10)])


def test_files_that_were_removed_are_in_no_commit() -> None:
    commits = archive_of(COMMITS).commits()
    assert [commit.files for commit in commits] == [(), (), (BOTH,)]
    assert [commit.files for commit in live(COMMITS[:2])] == [(A,), (B,)]


def test_a_snapshot_says_what_all_before_it_said() -> None:
    taken = snapshot(COMMITS)
    assert taken.files == (BOTH,)
    assert taken.ranges == (OffsetRange("t", 0, 10, 20), OffsetRange("t", 1, 0, 0))
    assert ends([taken]) == ends(COMMITS) == {("t", 0): 20, ("t", 1): 0}


def test_what_an_archive_says_of_itself() -> None:
    archive = archive_of(COMMITS)
    assert archive.topics() == ["t"]
    assert archive.ranges(["t"]) == [OffsetRange("t", 0, 10, 20)]
    assert archive.ranges(["s"]) == []
    assert archive.isolation_level == "read_uncommitted"


@pytest.mark.parametrize("strict", [False, True])
def test_files_that_nobody_committed_are_told_with_who_takes_them_away(strict: bool) -> None:
    archive = archive_of(COMMITS)
    assert isinstance(archive.files, Process)
    orphan = "topic=t/0000000009-00000001-first-part-0-x.parquet"
    for path in (BOTH.path, orphan, "topic=t/mine.parquet", "topic=t/_x/y.parquet", "notes.txt"):
        archive.files.content[path] = b""
    ours, others = archive_state(archive.files, ["t"], strict=strict).notes
    assert f"the next start of the archive job removes them): {orphan}" in ours.text
    assert "no job of ours made them: take them away): topic=t/mine.parquet" in others.text
    assert ours.differs is others.differs is strict


def test_a_lost_commit_is_damage() -> None:
    archive = archive_of([COMMITS[0], COMMITS[2]])
    with pytest.raises(PipelineError, match=r"damaged: _odradek/commits/0{19}1\.json is not there"):
        archive.commits()


def test_two_commits_of_one_offset_are_damage() -> None:
    archive = archive_of([COMMITS[0], replace(COMMITS[0], number=1)])
    with pytest.raises(PipelineError, match="offset 10 of t-0 was committed twice"):
        archive.ranges()


@pytest.mark.parametrize("data", [b"{", b"{}", b'{"version": 9}', b"[]", b"\xff"])
def test_a_commit_that_nobody_can_read_names_its_file(data: bytes) -> None:
    archive = archive_of(COMMITS)
    assert isinstance(archive.files, Process)
    archive.files.content[commit_path(1)] = data
    with pytest.raises(PipelineError, match=r"commits/0{19}1\.json cannot be read"):
        archive.commits()


def test_a_folder_without_an_archive() -> None:
    with pytest.raises(PipelineError, match="memory:/root is no archive: give the folder"):
        Archive(Process(Disk())).commits()
    assert read_commits(Process(Disk())) == []
