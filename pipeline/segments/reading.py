"""Reads one range of offsets as Arrow record batches: the work of a Spark task."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.records import CONTROL
from odradek.storage.errors import LogDirFailed, StorageError
from odradek.storage.files import FileSystem

from ..errors import PipelineError
from .batches import Batch, Damage, read_batches
from .log_view import LogView, is_gone
from .options import ReadOptions
from .planning import ReadRange
from .transactions import Aborted, aborted_transactions, is_aborted

logger = logging.getLogger(__name__)


@dataclass
class _Reading:
    """The state of one read."""

    view: LogView
    wanted: ReadRange
    options: ReadOptions
    timestamp_ms_min: int | None
    damages: list[Damage]
    untold_times: int = 0
    """Number of records whose timestamps Spark cannot represent."""

    def damaged(self, damage: Damage) -> None:
        """Report damage; with `fail_on_damage`, raise.  Raises: PipelineError."""
        if self.options.fail_on_damage:
            raise PipelineError(
                f"{damage.path} is damaged at position {damage.position} ({damage.problem}); "
                "mode=DROPMALFORMED reads the rest"
            )
        logger.warning(
            "segment damaged path=%s position=%d bytes=%d offsets=%d..%d problem=%s",
            damage.path,
            damage.position,
            damage.position_end - damage.position,
            damage.offset_first,
            damage.offset_end - 1,
            damage.problem,
        )
        self.damages.append(damage)

    def batches(self) -> Iterator[Batch]:
        """The batches that may have wanted records."""
        wanted = self.wanted
        aborted: Aborted = {}
        if self.options.committed_only:
            aborted = aborted_transactions(self.view, wanted.offset_start, wanted.offset_end)
        oldest_ms = self.timestamp_ms_min
        for batch in read_batches(
            self.view,
            wanted.offset_start,
            wanted.offset_end,
            self.damaged,
            high_watermark=wanted.high_watermark,
        ):
            header = batch.header
            if header.attributes & CONTROL or (aborted and is_aborted(header, aborted)):
                continue
            if oldest_ms is None or header.max_timestamp >= oldest_ms:
                yield batch


def read_range(
    files: FileSystem,
    wanted: ReadRange,
    options: ReadOptions,
    *,
    timestamp_ms_min: int | None = None,
) -> Iterator[Any]:
    """Arrow record batches of the records, or with `show_damage` of the damage instead.

    `timestamp_ms_min`: batches whose records are all older are left out.
    Raises: PipelineError, while iterating.
    """
    try:
        view = _open(files, wanted, options)
        try:
            reading = _Reading(view, wanted, options, timestamp_ms_min, [])
            for rows in _decode(reading):
                reading.untold_times += rows.column("timestamp").null_count
                if not options.show_damage and rows.num_rows:
                    yield rows
            if options.show_damage and reading.damages:
                yield _damage_rows(reading)
            _sum_up(reading)
        finally:
            view.close()
    except LogDirFailed as error:
        if is_gone(error):
            raise PipelineError(
                f"{wanted.directory} lost a file while it was read: retention or compaction took "
                "it away, read again"
            ) from error
        raise PipelineError(f"a segment can't be read: {error}") from error
    except StorageError as error:
        raise PipelineError(f"a segment can't be read: {error}") from error


def _open(files: FileSystem, wanted: ReadRange, options: ReadOptions) -> LogView:
    """Open the directory, and check that it has the range's start unless loss is allowed.

    Raises: PipelineError, LogDirFailed.
    """
    if not files.exists(wanted.directory):
        raise PipelineError(
            f"there is no {wanted.directory} on this machine: every executor has to see the data "
            "directory under the same path"
        )
    view = LogView(files, wanted.directory)
    first = view.first_offset
    if (first is None or first > wanted.offset_start) and options.fail_on_data_loss:
        view.close()
        raise PipelineError(
            f"the segment of offset {wanted.offset_start} has gone from {wanted.directory} since "
            "the read was planned; failOnDataLoss=false reads what is left"
        )
    return view


def _decode(reading: _Reading) -> Iterator[Any]:
    """Decode the batches of each piece of the file together, up to a limit of rows and bytes."""
    from .columns import Chunk

    wanted = reading.wanted
    taken: list[Batch] = []
    chunk: Chunk | None = None

    def finish(chunk: Chunk) -> Any:
        rows, malformed = chunk.decode(wanted.offset_start, wanted.offset_end)
        for number in malformed:
            reading.damaged(_malformed(taken[number], "a record does not fit its length"))
        taken.clear()
        return rows

    for batch in reading.batches():
        if chunk is None or chunk.piece is not batch.piece or chunk.is_full:
            if taken and chunk is not None:
                yield finish(chunk)
            chunk = Chunk(
                wanted.topic,
                wanted.partition,
                batch.piece,
                include_headers=reading.options.include_headers,
            )
        try:
            chunk.add(batch)
        except MalformedMessage as error:
            reading.damaged(_malformed(batch, str(error)))
        else:
            taken.append(batch)
    if taken and chunk is not None:
        yield finish(chunk)


def _malformed(batch: Batch, problem: str) -> Damage:
    header, position = batch.header, batch.position
    end = position + header.size_bytes
    return Damage(batch.path, position, end, header.base_offset, header.next_offset, problem)


def _sum_up(reading: _Reading) -> None:
    if reading.untold_times:
        logger.warning(
            "timestamps beyond Spark's are null topic=%s partition=%d records=%d",
            reading.wanted.topic,
            reading.wanted.partition,
            reading.untold_times,
        )
    if reading.damages:
        logger.warning(
            "damage skipped topic=%s partition=%d places=%d bytes=%d",
            reading.wanted.topic,
            reading.wanted.partition,
            len(reading.damages),
            sum(damage.position_end - damage.position for damage in reading.damages),
        )


def _damage_rows(reading: _Reading) -> Any:
    from .columns import damage_table

    return damage_table(reading.wanted.topic, reading.wanted.partition, reading.damages)
