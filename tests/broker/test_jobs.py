"""Jobs in child processes that are killed, can't be started, or have lost their parent."""

import asyncio
import gc
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import psutil
import pytest

from odradek.broker.jobs import ChildJobs, JobFailed
from odradek.broker.runtime import DaemonOffload
from tests.support.awaiting import turns
from tests.support.waiting import until

DEADLINE_S = 10


def fake_python(path: Path, script: str) -> str:
    program = path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.slow
def test_a_job_that_lost_its_parent_does_not_begin() -> None:
    job = {"job": "scrub", "arguments": {}, "parent": os.getppid()}
    command = [sys.executable, "-m", "odradek.storage.jobs"]
    ended = subprocess.run(
        command, input=json.dumps(job), capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "the parent is gone\n"


def test_a_line_that_was_cut_short_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = """cat > /dev/null; printf '{"done_bytes": 5}\\n{"resu'; exit 7"""
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path, script))
    reports: list[int] = []
    with pytest.raises(JobFailed, match="ended with 7"):
        asyncio.run(ChildJobs(DaemonOffload("jobs"))("scrub", {}, reports.append))
    assert reports == [5]


def test_a_job_fails_if_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    with pytest.raises(JobFailed, match="no process can be started"):
        asyncio.run(ChildJobs(DaemonOffload("jobs"))("scrub", {}))


@pytest.mark.parametrize("count", [1, 2, 10])
def test_a_job_that_is_cancelled_twice_leaves_no_process(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a crash of the broker, and the end of its loop right after it."""
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path, "exec sleep 60"))
    before = psutil.Process().children()

    async def cancel_twice() -> None:
        job = asyncio.ensure_future(ChildJobs(DaemonOffload("jobs"))("scrub", {}))
        await turns(count)
        assert len(psutil.Process().children()) == len(before) + 1
        job.cancel()
        await asyncio.sleep(0)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(cancel_twice())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    gone = "neither the process nor its zombie is there"
    until(lambda: psutil.Process().children() == before, gone, timeout_s=DEADLINE_S)
