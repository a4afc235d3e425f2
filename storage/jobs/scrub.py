"""The job that reads finished segments again and verifies them.

Arguments: "segments", a list of {"path", "size_bytes", "base_offset", "offset_end" (base offset of
the next segment), optionally "epochs" (the log's leader epochs, to compare with the batches)}.
"io_bytes_per_second" is for the process that runs the job (`__main__.py`).

Result: "segments", in order: {"damaged": the fields of each `DamagedRange`}, or {"error"} if the
segment can't be read (it may have been deleted meanwhile).
"""

from typing import Final

from odradek.protocol.primitives import INT32_MAX

from ..errors import StorageError
from ..files import FileSystem
from ..log.damage import find_wrong_epochs, scan_past_damage
from . import Arguments, Report, Result

_NO_INDEX: Final = INT32_MAX


def run(arguments: Arguments, files: FileSystem, report: Report) -> Result:
    """Verify the given segments.  `report` gets the bytes read so far."""
    done_bytes = 0

    def count(size_bytes: int) -> None:
        nonlocal done_bytes
        done_bytes += size_bytes
        report(done_bytes)

    results: list[Result] = []
    for segment in arguments["segments"]:
        file = files.open_log(segment["path"], segment["size_bytes"])
        try:
            _, damaged = scan_past_damage(
                file,
                segment["base_offset"],
                index_interval_bytes=_NO_INDEX,
                offset_end=segment["offset_end"],
                report=count,
            )
            if not damaged and "epochs" in segment:
                damaged = find_wrong_epochs(file, segment["epochs"])
            results.append({"damaged": damaged})
        except StorageError as error:
            results.append({"error": str(error)})
        finally:
            file.close()
    return {"segments": results}
