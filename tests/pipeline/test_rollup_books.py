"""What a rollup notes beside its checkpoint, on a file system of this test."""

import contextlib
import itertools
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.rollup import origin_of
from odradek.pipeline.rollup_batch import BatchWriter, advanced, picked
from odradek.pipeline.rollup_books import BATCHES, BATCHES_KEPT, Books, Noted, Origin, Planned
from odradek.pipeline.rollup_parquet import STAGING, ParquetFolder
from odradek.pipeline.rollup_reading import read_spec
from odradek.pipeline.rollup_spec import Rollup
from odradek.pipeline.rollup_windows import Counts
from tests.pipeline.memory_files import MemoryFiles

SPEC = """\
name: totals
source: {topics: orders}
schema: {format: json, fields: {cents: bigint, at: timestamp}}
event_time: at
watermark: 10 minutes
window: 5 minutes
measures: {orders: count}
output: {topic: totals}
checkpoint: /tmp/totals
"""


def memory(files: Mapping[str, str] = {}) -> MemoryFiles:
    return MemoryFiles({path: text.encode() for path, text in files.items()})


def spec(old: str = "", new: str = "") -> Rollup:
    return read_spec(SPEC.replace(old, new), "totals.yaml")


def offset_log(watermark_ms: int, offsets: Any) -> str:
    metadata = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": 1, "conf": {}}
    return f"v1\n{json.dumps(metadata)}\n{json.dumps(offsets)}"


def test_a_batch_is_what_spark_planned() -> None:
    files = memory(
        {
            "sources/0/0": '\0v1\n{"t":{"0":5}}',
            "offsets/0": offset_log(0, {"t": {"0": 9}}),
            "offsets/1": offset_log(700, {"t": {"0": 12, "1": 4}}),
            "offsets/2": offset_log(900, {"t": {"0": 12, "1": 4}}),
        }
    )
    first = Books(files).planned(0, chained=True)
    assert first == Planned({"t": {0: 5}}, {"t": {0: 9}}, 0, 0)
    second = Books(files).planned(1, chained=True)
    assert second == Planned({"t": {0: 9}}, {"t": {0: 12, 1: 4}}, 700, 0)
    assert Books(files).planned(2, chained=True).late_watermark_ms == 700
    assert Books(files).planned(2, chained=False).late_watermark_ms == 900
    assert advanced(second) == {"t": [0, 1]}
    assert picked(second.start, advanced(second)) == {"t": {0: 9, 1: -2}}
    assert advanced(Books(files).planned(2, chained=True)) == {}


def test_another_offset_log_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"is not as Spark 3\.5 and 4\.0 write it"):
        Books(memory({"offsets/0": "v2\n{}\n{}"})).planned(0, chained=True)


def test_totals_are_those_of_all_batches_and_a_batch_counts_once() -> None:
    files = memory()
    noting = Books(files)
    assert noting.newest() is None
    noting.note(0, Counts(10, 1, 2, 0), rows=3)
    for _ in range(2):  # as after a kill between note and commit
        noted = noting.note(1, Counts(5, 0, 1, 1), rows=4)
    assert (noted.total, noted.rows) == (Counts(15, 1, 3, 1), 7)
    assert noting.newest() == noted


def test_a_note_that_a_kill_left_half_written_is_none() -> None:
    files = memory({f"{BATCHES}/.odradek-5ac1-0000000000.json": "{"})
    assert Books(files).newest() is None
    noted = Books(files).note(0, Counts(10, 1, 2, 0), rows=3)
    assert Books(files).newest() == noted


@pytest.mark.parametrize("data", [b"{", b"{}", b'{"version": 2}'])
def test_a_note_that_nobody_can_read_is_named(data: bytes) -> None:
    files = memory()
    Books(files).note(0, Counts(1), rows=1)
    files.content[f"{BATCHES}/0000000000.json"] = data
    with pytest.raises(PipelineError, match=r"batches/0000000000\.json cannot be read"):
        Books(files).newest()


def test_old_notes_go() -> None:
    files = memory()
    for batch in range(BATCHES_KEPT + 5):
        noted = Books(files).note(batch, Counts(1), rows=1)
    assert noted.total.records == BATCHES_KEPT + 5
    assert len(files.content) == BATCHES_KEPT


def test_a_checkpoint_belongs_to_its_spec() -> None:
    files = memory()
    owner = Books(files).open(spec())
    files.content["offsets/0"] = offset_log(0, {"t": {"0": 40}}).encode()  # and was killed
    assert Books(files).open(spec()) == owner
    assert Books(files).open(spec("10 minutes", "1 hour")) == owner
    assert Books(files).open(spec("checkpoint", "trigger: 1 minute\ncheckpoint")) == owner
    for old, new, key in (
        ("window: 5", "window: 6", "window"),
        ("orders: count", "orders: sum(cents)", "measures"),
        ("topics: orders", "topics: other", "source"),
        ("bigint", "int", "schema"),
        ("output: {topic: totals}", "output: {topic: totals, mode: update}", "output"),
    ):
        with pytest.raises(PipelineError, match=f"was made with another `{key}`: put the spec"):
            Books(files).open(spec(old, new))


def refused_checkpoint() -> MemoryFiles:
    """As a run leaves it whose records did not fit: a batch with few of them, one with many."""
    files = memory(
        {
            "metadata": "{}",
            "sources/0/0": '\0v1\n{"t":{"0":5}}',
            "offsets/0": offset_log(0, {"t": {"0": 9}}),
            "offsets/1": offset_log(0, {"t": {"0": 40}}),
            "commits/0": "v1",
            "state/0/0/_metadata/schema": "v1",
        }
    )
    owned = memory()
    Books(owned).open(spec())
    files.content |= owned.content
    Books(files).note(0, Counts(4, 4), rows=0)
    return files


def test_a_spec_that_no_record_fitted_can_be_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    files = refused_checkpoint()
    identity = Books(files).open(spec())
    writer = BatchWriter(spec(), Books(files), None, reading={}, writing={}, chained=True)
    writer.open()
    row = SimpleNamespace(
        record_topic="t", record_partition=0, odradek_offset=9, odradek_reason="it is no JSON"
    )
    first = SimpleNamespace(select=lambda *_: SimpleNamespace(first=lambda: row))
    monkeypatch.setattr("odradek.pipeline.rollup_batch.with_reasons", lambda *_: first)
    writer._refuse_mismatch(None, Counts(40, 39))
    with pytest.raises(PipelineError, match="it is no JSON; correct the spec's `schema` and start"):
        writer._refuse_mismatch(None, Counts(31, 31))

    other = spec("bigint", "int")
    assert Books(files).open(other) == identity  # so that a Parquet folder is its own, still
    assert Books(files).newest() is None
    assert sorted(files.content) == ["odradek/rollup.json", "sources/0/0"]
    assert Books(files).open(other) == identity
    assert Books(files).open(spec()) == identity  # corrected again, before anything was read


@pytest.mark.parametrize(
    ("counts", "planned", "is_free"),
    [
        ([], 0, True),  # an empty topic, or a kill or a refusal before the first batch
        ([], 1, False),  # killed in the first batch
        ([Counts(4, 4)], 1, True),
        ([Counts(4, 4), Counts(3, 3)], 2, True),
        ([Counts(4, 4), Counts(3, 3)], 3, False),  # killed in the third batch
        ([Counts(4, 4), Counts(3, 2)], 2, False),
        ([Counts(4, 3), Counts(3, 3)], 2, False),
        ([Counts(4, 3)], 2, False),
    ],
)
def test_a_checkpoint_is_anothers_until_a_record_fitted(
    counts: list[Counts], planned: int, is_free: bool
) -> None:
    files = memory({"metadata": "{}", "sources/0/0": '\0v1\n{"t":{"0":5}}'})
    identity = Books(files).open(spec())
    before = dict(files.content)
    for batch in range(planned):
        files.content[f"offsets/{batch}"] = offset_log(0, {"t": {"0": batch + 9}}).encode()
    for batch, one in enumerate(counts):
        files.content[f"commits/{batch}"] = b"v1"
        Books(files).note(batch, one, rows=0)
    content = dict(files.content)
    assert Books(files).open(spec()) == identity
    assert files.content == content  # what is its own goes on, however bad its records were
    if is_free:
        assert Books(files).open(spec("bigint", "int")) == identity
        assert files.content.keys() == before.keys() - {"metadata"}
        return
    with pytest.raises(PipelineError, match="was made with another `schema`"):
        Books(files).open(spec("bigint", "int"))
    assert files.content == content


def test_a_corrected_source_begins_by_itself() -> None:
    files = refused_checkpoint()
    Books(files).refuse()
    Books(files).open(spec("topics: orders", "topics: other"))
    assert sorted(files.content) == ["odradek/rollup.json"]


ORDERS = {"orders": ["latest", "here", "id-1"]}


@pytest.mark.parametrize(
    ("origin", "stays"),
    [
        (ORDERS, True),
        (ORDERS | {"orders-2": ["latest", "here", "id-2"]}, True),  # a pattern found one more
        ({"orders": ["latest", "there", "id-1"]}, True),  # a copy of the whole cluster
        ({"orders": ["latest", "here", None]}, True),
        ({"orders": ["latest", "there", None]}, False),
        ({"orders": ["latest", "here", "id-3"]}, False),  # made anew
        ({"orders": ["earliest", "here", "id-1"]}, False),
        ({"orders-2": ["latest", "here", "id-2"]}, False),  # deleted
    ],
)
@pytest.mark.parametrize("refused", [True, False])
def test_where_another_log_was_begun_says_nothing_of_this_one(
    origin: Origin, stays: bool, refused: bool
) -> None:
    files = refused_checkpoint()
    del files.content["offsets/1"]
    del files.content["odradek/rollup.json"]
    begun = memory()
    identity = Books(begun, origin=ORDERS).open(spec())
    files.content |= begun.content
    if refused:
        Books(files).refuse()
    before = set(files.content)
    assert Books(files, origin=origin).open(spec()) == identity
    anew = {"odradek/rollup.json", *(["sources/0/0"] if stays else [])}
    assert files.content.keys() == (before if stays and not refused else anew)
    # Once a record has fitted, what is gone is the data loss that other checks tell of.
    files.content["offsets/0"] = offset_log(0, {"t": {"0": 9}}).encode()
    Books(files).note(0, Counts(4, 3), rows=0)
    before = set(files.content)
    assert Books(files, origin={}).open(spec()) == identity
    assert files.content.keys() == before


HERE = ORDERS | {"old": ["latest", "here", None]}


@pytest.mark.parametrize(
    ("now", "others"),
    [
        (HERE | {"orders-2": ["latest", "here", "id-2"]}, None),
        ({"old": ["latest", "here", "id-2"]}, None),  # deleted; the broker knows ids now
        (HERE | {"orders": ["earliest", "there", "id-1"]}, None),  # a copy of the whole cluster
        (HERE | {"orders": ["latest", "here", "id-3"]}, "orders"),
        ({topic: ["latest", "there", None] for topic in HERE}, "old, orders"),
    ],
)
def test_offsets_of_another_topic_say_nothing_of_this_one(now: Origin, others: str | None) -> None:
    files = memory({"offsets/0": offset_log(0, {"orders": {"0": 9}, "old": {"0": 7}})})
    begun = memory()
    Books(begun, origin=HERE).open(spec())
    files.content |= begun.content

    def noted() -> Origin:
        return dict(json.loads(files.content["odradek/rollup.json"])["origin"])

    if others is None:
        Books(files, origin=now).check_origin(fail_on_data_loss=True)
        assert noted() == {**HERE, **now}
        return
    with pytest.raises(PipelineError, match=f"^{others} was made anew since the checkpoint"):
        Books(files, origin=now).check_origin(fail_on_data_loss=True)
    assert noted() == HERE
    Books(files, origin=now).check_origin(fail_on_data_loss=False)
    Books(files, origin=now).check_origin(fail_on_data_loss=True)
    assert noted() == {**HERE, **now}


class Killed(Exception):
    """The job ends here."""


class DyingFiles(MemoryFiles):
    """The job is killed before a step."""

    steps = 0

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Killed


def test_a_kill_at_any_step_of_beginning_anew_repeats_it() -> None:
    for steps in itertools.count():
        files = DyingFiles(refused_checkpoint().content)
        del files.content["offsets/1"]  # not refused, but the few records were bad
        files.steps = steps
        with contextlib.suppress(Killed):
            Books(files).open(spec("bigint", "int"))
        was_killed = files.steps < 0
        Books(MemoryFiles(files.content)).open(spec("bigint", "int"))
        assert sorted(files.content) == ["odradek/rollup.json", "sources/0/0"]
        if not was_killed:
            break
    assert steps > 10


def test_a_checkpoint_that_notes_no_origin_is_begun_anew_where_it_began() -> None:
    files = refused_checkpoint()
    owner = json.loads(files.content["odradek/rollup.json"])
    del owner["origin"]
    files.content["odradek/rollup.json"] = json.dumps(owner | {"refused": True}).encode()
    Books(files, origin=ORDERS).open(spec("bigint", "int"))
    assert sorted(files.content) == ["odradek/rollup.json", "sources/0/0"]


def test_a_topic_is_known_by_its_cluster_its_id_and_where_it_is_begun() -> None:
    class Cluster(Kafka):
        def cluster_id(self) -> str:
            return "here"

        def topic_id(self, topic: str) -> str | None:
            return {"orders": "id-1"}.get(topic)  # None: of brokers before 2.8

    found = origin_of(spec(), Cluster("there:9092"), ["old", "orders"])
    assert found == {"old": ["earliest", "here", None], "orders": ["earliest", "here", "id-1"]}


def test_a_kill_while_a_refused_checkpoint_is_begun_anew_repeats_it() -> None:
    files = refused_checkpoint()
    Books(files).refuse()
    del files.content["offsets/0"], files.content["offsets/1"]
    Books(files).open(spec("bigint", "int"))
    assert sorted(files.content) == ["odradek/rollup.json", "sources/0/0"]


def test_a_checkpoint_keeps_its_time_zone() -> None:
    files = memory()
    identity = Books(files, "Asia/Tokyo").open(spec())
    files.content["offsets/0"] = offset_log(0, {"t": {"0": 40}}).encode()
    assert Books(files, "Asia/Tokyo").open(spec()) == identity
    with pytest.raises(
        PipelineError,
        match=r"was made with another `spark\.sql\.session\.timeZone`: put that setting back",
    ):
        Books(files).open(spec())


def test_the_checkpoint_of_another_query_is_refused() -> None:
    with pytest.raises(PipelineError, match="is the checkpoint of another query"):
        Books(memory({"offsets/0": "v1"})).open(spec())


def test_a_folder_of_parquet_belongs_to_its_checkpoint() -> None:
    folder = ParquetFolder(memory())
    folder.open("a")
    folder.open("a")
    with pytest.raises(PipelineError, match="holds the rows of another checkpoint"):
        folder.open("b")
    ParquetFolder(memory({".odradek-1c0d-.odradek-check-2e": ""})).open("a")
    with pytest.raises(PipelineError, match="is not empty and not a rollup's"):
        ParquetFolder(memory({"date=2026-01-01/a.parquet": ""})).open("a")


def killed(*, ended: int, parquet: Mapping[str, str] = {}) -> tuple[MemoryFiles, BatchWriter]:
    """As two batches leave it that read t and u, of which some have not ended."""
    files = memory(
        {
            "sources/0/0": '\0v1\n{"t":{"0":5},"u":{"0":0}}',
            "offsets/0": offset_log(0, {"t": {"0": 9}, "u": {"0": 4}}),
            "offsets/1": offset_log(700, {"t": {"0": 12}, "u": {"0": 5}}),
            **{f"commits/{batch}": "v1" for batch in range(ended)},
            "state/0/_metadata/metadata": "v1",
            **{f"state/0/7/{file}": "" for file in ("1.delta", "1.snapshot", "12.delta")},
        }
    )
    for batch in range(ended):
        Books(files).note(batch, Counts(4, 3), rows=1)
    folder = ParquetFolder(memory(parquet))
    writer = BatchWriter(spec(), Books(files), folder, reading={}, writing={}, chained=True)
    return files, writer


def test_a_batch_that_was_killed_is_planned_anew_without_what_is_gone() -> None:
    rows = "date=2026-01-01/rollup-0000000000-0.parquet"
    files, writer = killed(ended=1, parquet={rows: "of batch 0"})
    before = {*files.content}
    attempt = {
        f"state/{part}/2.{kind}" for part in ("0/7", "1/7") for kind in ("delta", "snapshot")
    }
    files.content.update(dict.fromkeys(attempt, b""))
    writer.books.note(1, Counts(4, 3), rows=1)
    attempt.add("odradek/batches/0000000001.json")
    writer.replan(["t", "u", "new"])
    assert files.content.keys() == before | attempt
    before -= {"offsets/1"}
    writer.replan(["t"])
    assert files.content.keys() == before
    assert writer.noted == Noted(0, Counts(4, 3), 1)
    writer.replan(["t"])  # batch 0, which has ended, had records of u
    assert files.content.keys() == before
    files, writer = killed(ended=2)
    writer.replan(["t"])
    assert "offsets/1" in files.content


def test_a_batch_that_has_parquet_files_is_not_planned_anew() -> None:
    says = r"batch 1 of .* had written Parquet files, .* without the records of u, which was delet"
    rows = "date=2026-01-01/rollup-0000000001-0.parquet"
    files, writer = killed(ended=1, parquet={rows: "of batch 1"})
    with pytest.raises(PipelineError, match=says):
        writer.replan(["t"])
    assert "offsets/1" in files.content


def test_two_jobs_that_write_a_batch_at_once_place_it_once() -> None:
    files = memory(
        {
            f"{STAGING}/{job}/{path}": job
            for job in ("a", "b")
            for path in (f"date=2026-01-01/part-{job}.parquet", "_SUCCESS")
        }
    )
    folder = ParquetFolder(files)
    assert folder.place(f"{STAGING}/b", 7) == folder.place(f"{STAGING}/a", 7) == 1
    placed = [path for path in files.content if not path.startswith(STAGING)]
    assert placed == ["date=2026-01-01/rollup-0000000007-0.parquet"]
    assert folder.place(f"{STAGING}/gone", 7) == 0
