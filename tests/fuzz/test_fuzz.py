"""Hostile frames in great numbers: the broker stays whole, and serves a good client meanwhile.

`make test` has another seed each time, which a failure prints; ODRADEK_SEED=… repeats one.
"""

import contextlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.kafka.process import killed_at_the_end
from tests.seeds import REPEAT, Repeats, repeated
from tests.support.certificates import Certificates
from tests.support.waiting import until

from .target import GoodClient, Target, attacked

GROWTH_BYTES_MAX: Final = 64 << 20
P99_TIMES_MAX: Final = 3
PAUSE_S: Final = 0.02
"""Of the good client; the one that measures it idle has the same."""
COORDINATOR_TASKS: Final = 8
"""What the topics of the coordinators may add."""
IN_TEST: Final = 20_000
IN_TEST_TLS: Final = 500
IN_TEST_SASL: Final = 1_000
IN_SOAK: Final = 1_000_000
RECORDS_IN_SOAK: Final = 50_000
PATIENT: Final = {"odradek.authentication.timeout.ms": "120000"}
"""The fuzzer is niced twice: on a busy machine it may need long for a handshake."""
LOGINS_IN_SOAK: Final = 100_000
IDLE_COUNT: Final = 200
SEED: Final = int(os.environ.get(REPEAT) or random.SystemRandom().randrange(1_000_000))


def fuzz(target: Target, good: GoodClient, *arguments: str) -> dict[str, float]:
    """Run the fuzzer to its end, while the good client works; return its counts."""
    command = [sys.executable, "-m", "tests.fuzz", *arguments]
    with killed_at_the_end(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ) as fuzzer:
        while fuzzer.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                fuzzer.wait(PAUSE_S)
            assert target.process.alive, target.output[-3000:]
            good.work()
        printed, errors = fuzzer.communicate()
    assert fuzzer.returncode == 0, errors
    counts: dict[str, float] = json.loads(printed)
    return counts


def attack(
    directory: Path,
    certificates: Certificates,
    *,
    seed: int,
    count: int = 0,
    records: int = 0,
    logins: int = 0,
) -> tuple[float, float]:
    """Send frames to a broker, look at what has become of it, and print that.

    With `records` it is a listener with TLS, and gets so many orders of records as well; with
    `logins` one with SASL, which gets so many orders of requests instead.
    Returns the good client's p99 before and meanwhile, in milliseconds.
    """
    print(f"{REPEAT}={seed}")
    with (
        attacked(directory, certificates, PATIENT) as target,
        GoodClient(target.plain_port) as good,
    ):
        for _ in range(IDLE_COUNT):
            good.work()
        idle_ms = good.p99_ms()
        before_bytes, before_tasks = target.memory_bytes, target.tasks()
        port, more = target.plain_port, ["--count", str(count)]
        if records:
            port = target.tls_port
            more += ["--ca", certificates.trust, "--records", str(records)]
        if logins:
            port, more = target.sasl_port, ["--logins", str(logins)]
        counts = fuzz(target, good, str(port), "--seed", str(seed), *more)
        p99_ms, grown_bytes = good.p99_ms(), target.memory_bytes - before_bytes
        until(lambda: target.connections == 1, "nobody but the good client is connected")
        until(lambda: target.tasks() <= before_tasks + COORDINATOR_TASKS, "no task hangs")
        good.work()
    assert grown_bytes < GROWTH_BYTES_MAX
    if logins:
        assert counts["breaches"] == 0
        assert counts["answers"] > logins / 10
    else:
        assert counts["frames"] == count
        assert counts["connections"] < count / 3, "most connections survive"
        assert counts["answers"] > count / 2
    print(counts, f"grown={grown_bytes >> 20} MiB p99={p99_ms:.1f} ms idle={idle_ms:.1f} ms")
    return idle_ms, p99_ms


@pytest.mark.slow
@pytest.mark.timeout(600)  # niced, it takes long beside other tests
def test_hostile_frames(tmp_path: Path, certificates: Certificates) -> None:
    attack(tmp_path, certificates, count=IN_TEST, seed=SEED)


@pytest.mark.slow
def test_hostile_records_of_tls(tmp_path: Path, certificates: Certificates) -> None:
    attack(tmp_path, certificates, count=IN_TEST_TLS, seed=SEED, records=IN_TEST_TLS)


@pytest.mark.slow
def test_hostile_logins(tmp_path: Path, certificates: Certificates) -> None:
    attack(tmp_path, certificates, logins=IN_TEST_SASL, seed=SEED)


@repeated(in_soak=1, each_s=6 * 3600)
def test_very_many_hostile_logins(
    repeats: Repeats, tmp_path: Path, certificates: Certificates
) -> None:
    attack(tmp_path, certificates, logins=LOGINS_IN_SOAK, seed=repeats.seed)


@repeated(in_soak=1, each_s=6 * 3600)
@pytest.mark.parametrize("records", [0, RECORDS_IN_SOAK], ids=["plain", "tls"])
def test_a_million_hostile_frames(
    repeats: Repeats, tmp_path: Path, certificates: Certificates, records: int
) -> None:
    idle_ms, p99_ms = attack(
        tmp_path, certificates, count=IN_SOAK, seed=repeats.seed, records=records
    )
    assert p99_ms <= P99_TIMES_MAX * idle_ms
