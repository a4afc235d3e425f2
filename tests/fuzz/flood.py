"""Runs the fuzzer in a process of its own, while a client that wants nothing bad goes on."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping

from tests.kafka.process import killed_at_the_end

from .target import NOTHING_ELSE, PAUSE_S


def flood(
    port: int,
    arguments: list[str],
    work: Callable[[], None],
    variables: Mapping[str, str] = NOTHING_ELSE,
) -> dict[str, float]:
    """Run the fuzzer to its end and call `work` with pauses meanwhile; return its counts."""
    command = [sys.executable, "-m", "tests.fuzz", str(port), *arguments]
    environment = {**os.environ, **variables}
    with killed_at_the_end(
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
    ) as fuzzer:
        while True:
            try:
                printed, errors = fuzzer.communicate(timeout=PAUSE_S)
            except subprocess.TimeoutExpired:
                work()
            else:
                break
    assert fuzzer.returncode == 0, errors
    counts: dict[str, float] = json.loads(printed)
    return counts
