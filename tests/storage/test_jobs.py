"""What jobs do in a process of their own, here in this one."""

import logging
from dataclasses import asdict
from pathlib import Path

from odradek.storage.jobs import run_job

from .support import SMALL, WALL_MS, UnsyncedFileSystem, append_values, batch_of, new_log

SIZE_BYTES = len(batch_of([b"v"]))


def test_recovery_says_how_far_it_is_and_passes_warnings_on(tmp_path: Path) -> None:
    """What is logged at a lower level is the child's own affair."""
    partitions = []
    for name in ("a", "b"):
        log = new_log(tmp_path / name)
        append_values(log, b"v")
        log.abandon()
        named = {"directory": log.directory, "topic": "t", "partition": 0}
        offsets = {"recovery_point": 0, "log_start_offset": 0, "high_watermark": 0}
        partitions.append({**named, **offsets, "config": asdict(SMALL)})
    torn = Path(log.directory) / f"{0:020d}.log"
    torn.write_bytes(torn.read_bytes() + b"torn")
    reports: list[int] = []
    arguments = {"partitions": partitions, "wall_ms": WALL_MS}
    result = run_job("recover", arguments, UnsyncedFileSystem(), reports.append)
    assert [one["log_end_offset"] for one in result["partitions"]] == [1, 1]
    assert reports == sorted(reports)
    assert reports[-1] >= 2 * SIZE_BYTES
    levels = {level for level, _ in result["warnings"]}
    assert levels
    assert min(levels) >= logging.WARNING


def test_the_epochs_of_a_segment_are_compared_if_they_are_known(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append_values(log, b"v", leader_epoch=3)
    segment = {
        "path": log.segments.active.file.path,
        "size_bytes": SIZE_BYTES,
        "base_offset": 0,
        "offset_end": 1,
    }
    segments = [segment, {**segment, "epochs": [[3, 0]]}, {**segment, "epochs": [[2, 0]]}]
    result = run_job("scrub", {"segments": segments}, log.files, lambda _: None)
    assert [len(one["damaged"]) for one in result["segments"]] == [0, 0, 1]
