"""The job that compacts one log: reads its segments and writes new ones beside them.

The files of the new segments end in `.cleaned` and are synced; the caller swaps them in, or removes
them. If the job fails, it removes what it wrote, if possible.

Arguments: "directory"; "segments", all finished ones from the log's first to the end of the
cleanable part, in order: {"base_offset", "size_bytes", "next_offset"}; "first_dirty_offset",
"end_offset" (exclusive: the first offset not to clean); "wall_ms"; the topic's
"delete_retention_ms", "segment_bytes", "segment_index_bytes", "index_interval_bytes",
"record_bytes_max" (limit of a decompressed batch); "map_bytes" and "load_factor" (memory of the
offset map, and the share of it to use); "io_buffer_bytes"; "producers", the log's active ones:
[producer id, epoch, last offset of its last data batch or -1]. "io_bytes_per_second" is for the
process that runs the job (`__main__.py`): a report may sleep.

Result: "end_offset", the next first dirty offset, below the argument if the map was full;
"segments", in order: {"replaces": [base offsets], "base_offset", "size_bytes"} of each new one;
"statistics" (`CleanStatistics`).
"""

from dataclasses import asdict
from typing import Final

from ..cleaner import CleanRequest, CleanSegment, clean
from ..cleaner.retain import ActiveProducer
from ..files import FileSystem
from . import Arguments, Report, Result

_TAKEN_AS_THEY_ARE: Final = (
    "directory",
    "first_dirty_offset",
    "end_offset",
    "wall_ms",
    "delete_retention_ms",
    "segment_bytes",
    "segment_index_bytes",
    "index_interval_bytes",
    "record_bytes_max",
    "map_bytes",
    "load_factor",
    "io_buffer_bytes",
)


def run(arguments: Arguments, files: FileSystem, report: Report) -> Result:
    """Clean one log.  `report` gets the bytes read and written so far.

    Raises: CorruptLog and UnsupportedFormat (with file and position; the log can't be cleaned as it
    is), BatchTooLarge, LogDirFailed, DiskFull.
    """
    request = CleanRequest(
        segments=[
            CleanSegment(segment["base_offset"], segment["size_bytes"], segment["next_offset"])
            for segment in arguments["segments"]
        ],
        producers={
            producer_id: ActiveProducer(epoch, last_offset)
            for producer_id, epoch, last_offset, *_ in arguments["producers"]
        },
        **{name: arguments[name] for name in _TAKEN_AS_THEY_ARE},
    )
    return asdict(clean(request, files, report))
