"""A rollup's notes beside its checkpoint: which spec it belongs to, and counts of all records.

`CHECKPOINT/odradek/rollup.json` says which spec the checkpoint belongs to.
`CHECKPOINT/odradek/batches/N.json` has the counts of batch N and the totals up to it. A batch that
is run again after a kill has the same offsets and watermark, and writes the same file again.

A checkpoint belongs to its spec once a record has fitted. Before that, another spec starts it anew.
"""

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from .checkpoints import planned_batches, read_initial_offsets, read_offset_log
from .documents import document_of, encode
from .errors import PipelineError
from .files import Files
from .offsets import Offsets
from .rollup_spec import Rollup
from .rollup_windows import Counts

VERSION: Final = 1
OWNER: Final = "odradek/rollup.json"
BATCHES: Final = "odradek/batches"
SOURCES: Final = "sources"
"""Where Spark notes at which offsets a query began."""
DONE: Final = ("offsets", "commits", "state", "metadata", BATCHES)
"""What Spark and we note about batches."""
TIME_ZONE: Final = "spark.sql.session.timeZone"
BATCHES_KEPT: Final = 100
"""As many as Spark keeps of its own (spark.sql.streaming.minBatchesToRetain)."""

logger = logging.getLogger(__name__)

Origin = Mapping[str, Sequence[str | None]]
"""For each topic read: where a rollup begins it, its cluster id and its topic id."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What Spark writes about a batch before it runs it."""

    start: Offsets
    """Topic, partition, offset; a partition that is new in this batch has none."""
    end: Offsets
    watermark_ms: int
    """The watermark before the batch's own records: it closes windows in this batch."""
    late_watermark_ms: int
    """The watermark that makes records late: by default that of the previous batch."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A batch, with the totals of all batches up to it."""

    batch_id: int
    total: Counts
    rows: int


class Books:
    """The notes beside one checkpoint.  All methods raise PipelineError."""

    def __init__(
        self, checkpoint: Files, time_zone: str = "UTC", origin: Origin | None = None
    ) -> None:
        """`time_zone` is the session's: it applies to dates, and to times without a zone."""
        self.files = checkpoint
        self._time_zone = time_zone
        self._origin = origin or {}

    def open(self, spec: Rollup) -> str:
        """The id of the checkpoint, created at its first start; other specs are refused.

        If no record has fitted yet, a checkpoint of another spec is started anew instead.
        """
        meaning = {**meaning_of(spec), TIME_ZONE: self._time_zone}
        if not self.files.exists(OWNER):
            if self.files.exists("offsets"):
                raise PipelineError(
                    f"{self.files.uri} is the checkpoint of another query:"
                    " give the rollup one of its own"
                )
            identity = uuid.uuid4().hex
            self._own(identity, meaning, overwrite=False)
            return identity
        with document_of(self.files, OWNER, VERSION) as owner:
            identity, meant = str(owner["id"]), dict(owner["spec"])
            is_refused = bool(owner.get("refused"))
            origin = dict(owner.get("origin", {}))  # older ones have none
        differing = [key for key in meaning if meant.get(key) != meaning[key]]
        # Additional topics are fine: Spark begins those by itself.
        is_elsewhere = "source" in differing or any(
            topic not in self._origin
            or before[0] != self._origin[topic][0]
            or is_another(before, self._origin[topic])
            for topic, before in origin.items()
        )
        if is_refused or ((differing or is_elsewhere) and not self._has_good()):
            self.refuse()  # a kill in between must not leave what looks like good records
            # Keeps where the query began: with `latest`, records that came since are not skipped.
            self._forget(*DONE)
            if is_elsewhere:
                logger.warning(
                    "no record was counted yet, and the source has changed: starting anew"
                )
                self._forget(SOURCES)
            self._own(identity, meaning)
            return identity
        if differing:
            what = "that setting" if differing == [TIME_ZONE] else "the spec"
            raise PipelineError(
                f"the checkpoint {self.files.uri} was made with another"
                f" {' and '.join(f'`{key}`' for key in differing)}: put {what} back,"
                " or give it a new name, checkpoint and output"
            )
        return identity

    def check_origin(self, *, fail_on_data_loss: bool) -> None:
        """Refuse topics that were recreated or are another cluster's, or accept them from now on.

        The checkpoint's offsets mean nothing for such topics, even where they exist.
        """
        with document_of(self.files, OWNER, VERSION) as owner:
            before: Origin = dict(owner.get("origin", {}))
        others = [
            topic
            for topic in sorted(before.keys() & self._origin.keys())
            if is_another(before[topic], self._origin[topic])
        ]
        if others and fail_on_data_loss:
            raise PipelineError(
                f"{', '.join(others)} was made anew since the checkpoint {self.files.uri} read it,"
                " or is another cluster's: give the rollup a new name, checkpoint and output, or go"
                " on at the checkpoint's offsets with --no-fail-on-data-loss"
            )
        origin = {**before, **self._origin}
        if origin != before:
            self._write_owner({**owner, "origin": origin})

    def refuse(self) -> None:
        """Let the next start begin the checkpoint anew, whatever its spec: no record was good."""
        with document_of(self.files, OWNER, VERSION) as owner:
            self._write_owner({**owner, "refused": True})

    def planned(self, batch_id: int, *, chained: bool) -> Planned:
        """What Spark's checkpoint says about a batch.

        `chained` is spark.sql.streaming.statefulOperator.allowMultiple (Spark's default): the
        watermark of the previous batch makes records late.  Source: WatermarkPropagator.scala.
        """
        batch = read_offset_log(self.files, batch_id)
        if batch_id == 0:
            start, before_ms = read_initial_offsets(self.files), 0
        else:
            before = read_offset_log(self.files, batch_id - 1)
            start, before_ms = before.offsets, before.watermark_ms
        late_ms = before_ms if chained else batch.watermark_ms
        return Planned(start, batch.offsets, batch.watermark_ms, late_ms)

    def note(self, batch_id: int, counts: Counts, rows: int) -> Noted:
        """Note a batch; returns it with the totals of all batches up to it."""
        total, total_rows = counts, rows
        if batch_id > 0:
            before = self._read(batch_id - 1)
            total, total_rows = before.total + counts, before.rows + rows
        document = {
            "version": VERSION,
            "batch": {**asdict(counts), "rows": rows},
            "total": {**asdict(total), "rows": total_rows},
        }
        self.files.write(_path(batch_id), encode(document), overwrite=True)
        if batch_id >= BATCHES_KEPT:
            self.files.delete(_path(batch_id - BATCHES_KEPT))
        return Noted(batch_id, total, total_rows)

    def unnote(self, batch_id: int) -> None:
        """Remove the note of a batch, if there is one."""
        self.files.delete(_path(batch_id))

    def newest(self) -> Noted | None:
        """The newest batch that was noted."""
        names = (file.path.rpartition("/")[2] for file in self.files.list(BATCHES))
        # An unfinished note has a temporary name.
        noted = [int(name.removesuffix(".json")) for name in names if name[0].isdecimal()]
        return self._read(max(noted)) if noted else None

    def _has_good(self) -> bool:
        """Whether a record may have fitted; else nothing was written but dead letters."""
        planned, noted = planned_batches(self.files), self.newest()
        if noted is None or noted.total.good:
            return bool(planned)
        return planned[-1:] != [noted.batch_id]  # a batch was killed, and may have written some

    def _own(self, identity: str, meaning: Mapping[str, Any], *, overwrite: bool = True) -> None:
        owner = {"version": VERSION, "id": identity, "spec": meaning, "origin": self._origin}
        self._write_owner(owner, overwrite=overwrite)

    def _write_owner(self, owner: Mapping[str, Any], *, overwrite: bool = True) -> None:
        self.files.write(OWNER, encode(owner), overwrite=overwrite)

    def _forget(self, *folders: str) -> None:
        for folder in folders:
            self.files.delete(folder, recursive=True)

    def _read(self, batch_id: int) -> Noted:
        with document_of(self.files, _path(batch_id), VERSION) as document:
            total = dict(document["total"])
            rows = total.pop("rows")
            return Noted(batch_id, Counts(**total), rows)


def meaning_of(spec: Rollup) -> Mapping[str, Any]:
    """What must not change while a checkpoint is used; delays, triggers and batch sizes may."""
    return {
        "name": spec.name,
        "source": [*spec.source.topics, spec.source.topics_pattern, spec.source.isolation_level],
        "schema": asdict(spec.schema) | {"fields": [asdict(one) for one in spec.schema.fields]},
        "event_time": spec.event_time.field,
        "window": asdict(spec.window),
        "key": list(spec.key),
        "measures": {one.name: one.expression for one in spec.measures},
        "output": asdict(spec.output),
    }


def is_another(before: Sequence[str | None], now: Sequence[str | None]) -> bool:
    """Whether a topic is not the same as before; brokers before 2.8 have no topic ids."""
    (_, cluster_before, id_before), (_, cluster_now, id_now) = before, now
    if id_before is None or id_now is None:
        return cluster_before != cluster_now
    return id_before != id_now


def _path(batch_id: int) -> str:
    return f"{BATCHES}/{batch_id:010d}.json"
