"""The preloaded library delays and counts the fsyncs of a process."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.slow_fsync import SlowFsync

PROGRAM = """
import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
began = time.perf_counter()
os.fsync(file); os.fdatasync(file)
print(time.perf_counter() - began)
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_fsyncs_are_slowed_and_counted(tmp_path: Path) -> None:
    slow = SlowFsync(tmp_path, delay_us=30_000)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "file")]
    took = subprocess.run(command, env=slow.env, check=True, capture_output=True, text=True)
    assert float(took.stdout) >= 0.06
    assert slow.count == 2
