"""What a JVM writes to stderr while it starts, and later: here a shell stands for the JVM."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import subprocess, sys
from odradek.pipeline.spark_output import held_back

with held_back():
    jvm = subprocess.Popen(
        ["sh", "-c", "echo :: loading >&2; echo up; read line; echo $line >&2"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    jvm.stdout.readline()
    if sys.argv[1] == "fails":
        raise OSError("no gateway")
print("ours", file=sys.stderr)
jvm.stdin.write("later\\n")
jvm.stdin.flush()
sys.stdin.read()  # until the test has seen it
"""


@pytest.mark.parametrize("ends", ["starts", "fails"])
def test_it_is_shown_once_spark_runs_or_has_failed(ends: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, ends],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as program:
        assert program.stdin is not None and program.stderr is not None
        lines = []
        for line in program.stderr:
            lines.append(line.strip())
            if line == "later\n":
                program.stdin.close()
    assert program.returncode == (ends == "fails")
    if ends == "starts":
        assert lines == ["ours", "later"]
    else:
        assert lines[0] == ":: loading"
        assert lines[-1] == "OSError: no gateway"
