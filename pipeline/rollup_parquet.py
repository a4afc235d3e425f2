"""Closed windows as Parquet files, each row exactly once.

A batch is written to a hidden folder, and its files are moved to names that depend on the batch
only: `date=YYYY-MM-DD/rollup-BATCH-I.parquet`. A batch that is run again after a kill has the same
rows, and files that are already in place stay, so no reader of the folder sees a row twice.
"""

import uuid
from typing import Final

from .documents import document_of, encode
from .errors import PipelineError
from .files import TEMPORARY, Files
from .spark_types import DataFrame

VERSION: Final = 1
OWNER: Final = "_odradek_rollup.json"
STAGING: Final = "_odradek_staging"


class ParquetFolder:
    """The folder that one checkpoint writes to.  All methods raise PipelineError."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def open(self, owner: str) -> None:
        """Claim the folder for a checkpoint, or check that it belongs to it.

        File names begin at batch 0 for each checkpoint, so rows of a second one would be left out.
        """
        if self.files.exists(OWNER):
            with document_of(self.files, OWNER, VERSION) as document:
                is_own = document["checkpoint"] == owner
            if is_own:
                self.files.delete(STAGING, recursive=True)  # of a batch that was killed
                return
            raise PipelineError(
                f"{self.files.uri} holds the rows of another checkpoint:"
                " put that back, or give the rollup another folder"
            )
        # A killed start leaves its temporary files, and it must be possible to repeat it.
        found = (status.path for status in self.files.list(recursive=True))
        if any(not path.startswith(TEMPORARY) for path in found):
            raise PipelineError(
                f"{self.files.uri} is not empty and not a rollup's: give the rollup another folder"
            )
        self.files.write(OWNER, encode({"version": VERSION, "checkpoint": owner}))

    def holds(self, batch_id: int) -> bool:
        """Whether any files of a batch are in place."""
        found = (file.path.rpartition("/")[2] for file in self.files.list(recursive=True))
        return any(name.startswith(_stem(batch_id)) for name in found)

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write a batch's rows; repeating that changes nothing."""
        # A new folder each time: in a shared one, files of two concurrent jobs would get different
        # numbers, and both be read.
        staging = f"{STAGING}/{uuid.uuid4().hex}"
        (
            rows.selectExpr("*", "date_format(window_start, 'yyyy-MM-dd') AS date")
            .coalesce(1)
            .write.partitionBy("date")
            .option("maxRecordsPerFile", 0)  # rows have no order: files could be cut anywhere
            .parquet(self.files.absolute(staging))
        )
        if not self.place(staging, batch_id):
            raise PipelineError(
                f"nothing of batch {batch_id} is in {self.files.uri}: another job has begun to"
                " write there, let only one run; or the executors do not share the folder with the"
                " driver, then give one that is the same on every machine"
            )
        self.files.delete(staging, recursive=True)

    def place(self, staging: str, batch_id: int) -> int:
        """Move a batch's files into place unless they are there; returns how many there are."""
        targets = []
        for folder in self.files.folders(staging):
            date = folder.rpartition("/")[2]
            for index, file in enumerate(self.files.list(folder)):
                target = f"{date}/{_stem(batch_id)}{index}.parquet"
                if not file.path.endswith(".parquet"):
                    continue
                if not self.files.exists(target):
                    self.files.sync([file.path])
                    self.files.rename(file.path, target)
                targets.append(target)
        # Spark's checkpoint advances past them, so they must survive a power cut.
        self.files.sync_names(targets)
        return len(targets)


def _stem(batch_id: int) -> str:
    return f"rollup-{batch_id:010d}-"
