"""Hostile frames in great numbers: the broker stays whole, and serves a good client meanwhile.

`make test` has another seed each time, which a failure prints; ODRADEK_SEED=… repeats one.
"""

import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.seeds import REPEAT, Repeats, repeated
from tests.support.certificates import Certificates
from tests.support.waiting import until

from .__main__ import PASSWORD as FUZZ_PASSWORD
from .flood import flood
from .target import PASSWORD, PROTOCOLS, GoodClient, Target, attacked

GROWTH_BYTES_MAX: Final = 64 << 20
P99_TIMES_MAX: Final = 5
"""Of the idle one, beside FEW_PER_SECOND. Without TLS it is 3 or less."""
P99_TIMES_MAX_SATURATED: Final = 10
"""Beside as many frames as the broker takes: it is never idle, and its collector, the fuzzer and
the operating system have no time of their own."""
FEW_PER_SECOND: Final = 500
"""About as many as Apache Kafka 3.9.2 takes on such a machine."""
FEW_IN_SOAK: Final = 60 * FEW_PER_SECOND
COORDINATOR_TASKS: Final = 8
"""What the topics of the coordinators may add."""
IN_TEST: Final = 50_000
IN_TEST_TLS: Final = 500
IN_TEST_SASL: Final = 1_000
IN_SOAK: Final = 1_000_000
RECORDS_IN_SOAK: Final = 50_000
PATIENT: Final = {"odradek.authentication.timeout.ms": "120000"}
"""The fuzzer is niced twice: on a busy machine it may need long for a handshake."""
LOGINS_IN_SOAK: Final = IN_SOAK
IDLE_IN_SOAK: Final = 1_000
SEED: Final = int(os.environ.get(REPEAT) or random.SystemRandom().randrange(1_000_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is sent to a listener."""

    frames: int = 0
    """Once the client has logged in, where it can."""
    per_second: float | None = None
    """How many of them at most; None: as many as the broker takes.

    The fuzzer then computes only when nobody else does: what it takes from the good client is not
    what the broker is asked about.
    """
    records: int = 0
    """Orders of records of TLS."""
    idle: int = 50
    """How many records the good client writes and reads before."""
    logins: int = 0
    """Orders of requests of clients that do not log in, instead of the others."""


def fuzz(
    target: Target,
    good: GoodClient,
    protocol: str,
    certificates: Certificates,
    arguments: list[str],
) -> dict[str, float]:
    """Attack a listener until the fuzzer ends, while the good client works; return its counts."""

    def work() -> None:
        assert target.process.alive, target.output[-3000:]
        good.work()

    if protocol.endswith("SSL"):
        arguments = [*arguments, "--ca", certificates.trust]
    variables = {FUZZ_PASSWORD: PASSWORD} if protocol.startswith("SASL") else {}
    return flood(target.ports[protocol], arguments, work, variables)


def attack(
    directory: Path, certificates: Certificates, seed: int, load: Load, protocol: str = "PLAINTEXT"
) -> tuple[float, float]:
    """Attack a listener of a broker, look at what has become of the broker, and print that.

    Returns the good client's p99 before and meanwhile, in milliseconds.
    """
    print(f"{REPEAT}={seed}")
    with (
        attacked(directory, certificates, PATIENT) as target,
        GoodClient(target.plain_port) as good,
    ):
        good.work_with_pauses(load.idle)
        idle_ms = good.p99_ms()
        before_bytes, before_tasks = target.memory_bytes, target.tasks()
        target.longest_turn_ms()  # from now on
        arguments = ["--seed", str(seed), "--count", str(load.frames)]
        arguments += ["--records", str(load.records), "--logins", str(load.logins)]
        if load.per_second is not None:
            arguments += ["--per-second", str(load.per_second), "--idle"]
        counts = fuzz(target, good, protocol, certificates, arguments)
        p99_ms, grown_bytes = good.p99_ms(), target.memory_bytes - before_bytes
        print(
            protocol,
            counts,
            f"grown={grown_bytes >> 20} MiB p99={p99_ms:.1f} ms idle={idle_ms:.1f} ms "
            f"cpu={target.cpu_s:.0f} s longest turn={target.longest_turn_ms():.1f} ms",
        )
        until(lambda: target.connections == 1, "nobody but the good client is connected")
        until(lambda: target.tasks() <= before_tasks + COORDINATOR_TASKS, "no task hangs")
        good.work()
    assert grown_bytes < GROWTH_BYTES_MAX
    if load.logins:
        assert counts["breaches"] == 0
        assert counts["answers"] > load.logins / 10
    else:
        assert counts["frames"] == load.frames
        assert counts["connections"] < load.frames / 3, "most connections survive"
        assert counts["answers"] > load.frames / 2
    return idle_ms, p99_ms


@pytest.mark.slow
@pytest.mark.timeout(600)  # niced, it takes long beside other tests
def test_hostile_frames(tmp_path: Path, certificates: Certificates) -> None:
    attack(tmp_path, certificates, SEED, Load(frames=IN_TEST))


@pytest.mark.slow
def test_hostile_records_of_tls(tmp_path: Path, certificates: Certificates) -> None:
    attack(tmp_path, certificates, SEED, Load(frames=IN_TEST_TLS, records=IN_TEST_TLS), "SASL_SSL")


@pytest.mark.slow
def test_hostile_logins(tmp_path: Path, certificates: Certificates) -> None:
    attack(tmp_path, certificates, SEED, Load(logins=IN_TEST_SASL), "SASL_PLAINTEXT")


@repeated(in_soak=1, each_s=6 * 3600)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_million_hostile_logins(
    repeats: Repeats, tmp_path: Path, certificates: Certificates, protocol: str
) -> None:
    attack(tmp_path, certificates, repeats.seed, Load(logins=LOGINS_IN_SOAK), protocol)


@repeated(in_soak=1, each_s=6 * 3600)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_million_hostile_frames(
    repeats: Repeats, tmp_path: Path, certificates: Certificates, protocol: str
) -> None:
    records = RECORDS_IN_SOAK if protocol.endswith("SSL") else 0
    load = Load(frames=IN_SOAK, records=records, idle=IDLE_IN_SOAK)
    idle_ms, p99_ms = attack(tmp_path, certificates, repeats.seed, load, protocol)
    assert p99_ms <= P99_TIMES_MAX_SATURATED * idle_ms


@repeated(in_soak=1, each_s=600)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_good_client_waits_little(
    repeats: Repeats, tmp_path: Path, certificates: Certificates, protocol: str
) -> None:
    load = Load(frames=FEW_IN_SOAK, per_second=FEW_PER_SECOND, idle=IDLE_IN_SOAK)
    idle_ms, p99_ms = attack(tmp_path, certificates, repeats.seed, load, protocol)
    assert p99_ms <= P99_TIMES_MAX * idle_ms
