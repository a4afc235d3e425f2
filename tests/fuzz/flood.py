"""Runs the fuzzer in a process of its own, while a client that wants nothing bad goes on."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Final

from tests.kafka.process import killed_at_the_end

from .target import PAUSE_S

NO_VARIABLES: Final[Mapping[str, str]] = {}


def flood(
    port: int,
    arguments: list[str],
    work: Callable[[], None],
    variables: Mapping[str, str] = NO_VARIABLES,
) -> dict[str, float]:
    """Run the fuzzer to its end and call `work` with pauses meanwhile; return its counts."""
    command = [sys.executable, "-m", "tests.fuzz", str(port), *arguments]
    environment = {**os.environ, **variables}
    with killed_at_the_end(
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
    ) as fuzzer:
        while fuzzer.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                fuzzer.wait(PAUSE_S)
            work()
        printed, errors = fuzzer.communicate()
    assert fuzzer.returncode == 0, errors
    counts: dict[str, float] = json.loads(printed)
    return counts
