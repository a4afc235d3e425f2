"""Hours of load with random faults: memory, descriptors and tasks of a broker stay flat."""

import os
import random
import time
from pathlib import Path
from typing import Final

import pytest

from tests.lab.cluster import Cluster
from tests.lab.soak import FOLDER, Progress
from tests.lab.steady import KIND, Sample, Steady, grown, write_samples

MINUTES: Final = float(os.environ.get("MINUTES") or 120)
WARM_SHARE: Final = 1 / 6  # the first 20 minutes of two hours
WORKLOAD_S: Final = 180.0
TAKEN: Final = 0.8
"""So much of the load is acknowledged: what could not be written during a fault is left out."""
SETTINGS: Final = {
    "offsets.topic.replication.factor": "3",
    "log.retention.check.interval.ms": "10000",  # else segments, and descriptors, rise for 5 min
}


@pytest.mark.soak
@pytest.mark.java
@pytest.mark.wire
@pytest.mark.timeout(10_800)
def test_a_broker_needs_no_more_with_time(tmp_path: Path) -> None:
    """A run that was ended begins anew: what is asked is what one process does over hours."""
    seed = int(os.environ.get("SEED") or random.randrange(1_000_000))
    with (
        Progress("steady", int(MINUTES)) as progress,
        Cluster(KIND, directory=tmp_path, settings=SETTINGS) as lab,
    ):
        if not progress.left:
            return
        lab.start_zookeeper()
        lab.start()
        steady = Steady(lab, seed)
        greatest = steady.measure()
        print(f"steady seed={seed} maximum_per_s={greatest}", flush=True)
        half = {kind: per_s / 2 for kind, per_s in greatest.items()}
        begin_s = time.monotonic()
        try:
            steady.run(MINUTES * 60, min(WORKLOAD_S, MINUTES * 20), half)
        finally:
            FOLDER.mkdir(parents=True, exist_ok=True)
            write_samples(steady.samples, FOLDER / "steady.csv")
        per_s = steady.acknowledged / (time.monotonic() - begin_s)
        print(f"steady acknowledged_per_s={per_s:.0f} of {sum(half.values()):.0f}", flush=True)
        assert grown(steady.samples, MINUTES * 60 * WARM_SHARE) == []
        assert per_s > sum(half.values()) * TAKEN
        mb = steady.samples[-1].pss_bytes / 1e6
        progress.add(
            progress.left,
            seed=seed,
            acknowledged=steady.acknowledged,
            faults=len(steady.faults),
            maximum_per_s=round(sum(greatest.values())),
            acknowledged_per_s=round(per_s),
            pss_mb=round(mb, 1),
        )


def test_what_has_grown_is_told() -> None:
    flat = [Sample(float(s), 50_000_000 + s % 7, 40 + s % 3, 30) for s in range(0, 600, 5)]
    assert grown(flat, 100.0) == []
    leaking = [
        sample._replace(pss_bytes=50_000_000 + int(100_000 * sample.at_s)) for sample in flat
    ]
    assert [text.split()[0] for text in grown(leaking, 100.0)] == ["pss_bytes"]
    for percent, expected in ((4.5, 0), (5.5, 1)):
        per_s = 50_000_000 * percent / 100 / 500
        rising = [s._replace(pss_bytes=50_000_000 + int(per_s * s.at_s)) for s in flat]
        assert len(grown(rising, 100.0)) == expected, percent
    forgetful = [sample._replace(tasks=30 + int(sample.at_s)) for sample in flat]
    assert [text.split()[0] for text in grown(forgetful, 100.0)] == ["tasks"]
    early = [s._replace(descriptors=500 if s.at_s < 100 else 40) for s in flat]
    assert grown(early, 100.0) == []
    assert grown(flat[:5], 100.0) == ["only 0 samples after 100 s"]
