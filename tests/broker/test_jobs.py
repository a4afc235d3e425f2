"""Jobs in child processes that are killed, can't be started, or have lost their parent."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.broker.jobs import ChildJobs, JobFailed


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
        asyncio.run(ChildJobs()("scrub", {}, reports.append))
    assert reports == [5]


def test_a_job_fails_if_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    with pytest.raises(JobFailed, match="no process can be started"):
        asyncio.run(ChildJobs()("scrub", {}))
