"""The same segments, cleaned by a real Kafka 3.9.2 and by us: the same batches come out.

They are compared byte by byte where nothing was compressed anew. What Kafka did is recorded, as
answers are (`comparing.py`); `make soak PART=recorded` has it do the same anew.
"""

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import pytest

from odradek.protocol.records.record import records_of
from odradek.storage.files import RealFileSystem
from odradek.storage.jobs import run_job
from tests.kafka.apache import ApacheKafka, apache_kafka
from tests.wire.compactions import (
    INDEX_INTERVAL_BYTES,
    SCENARIOS,
    SEGMENT_BYTES,
    SETTINGS,
    VERSION,
    Cleaning,
    Scenario,
    batches_in,
    cleanings_by_kafka,
)
from tests.wire.comparing import SIDES, Kafka, mode_of, need_kafka, report_stale

RECORD_BYTES_MAX: Final = 1 << 24


class Cleaner:
    """Kafka's: what it has made is recorded, or it is started when it is first needed."""

    def __init__(self, mode: Kafka, exits: ExitStack) -> None:
        self.mode = mode
        self._exits = exits
        self._running: ApacheKafka | None = None

    def cleanings(self, scenario: Scenario, request: pytest.FixtureRequest) -> Iterator[Cleaning]:
        """Those of a scenario."""
        recorded = scenario.read()
        if self.mode is Kafka.RECORDED and recorded is not None:
            yield from recorded
            return
        if recorded is None and self.mode is not Kafka.RECORDING:
            report_stale(self.mode, request)
        live = []
        for cleaning in cleanings_by_kafka(self._kafka(), scenario):
            yield cleaning
            live.append(cleaning)
        if self.mode is Kafka.RECORDING:
            scenario.write(live)

    def _kafka(self) -> ApacheKafka:
        if self._running is None:
            need_kafka(VERSION)
            self._running = self._exits.enter_context(apache_kafka(VERSION, settings=SETTINGS))
        return self._running


@pytest.fixture(scope="module", params=SIDES)
def cleaner(request: pytest.FixtureRequest) -> Iterator[Cleaner]:
    """Kafka's cleaner."""
    with ExitStack() as exits:
        yield Cleaner(mode_of(request), exits)


def content(log: bytes) -> list[Any]:
    """Everything but how well it was compressed."""
    return [
        (header._replace(batch_length=0, crc=0), bytes(records_of(batch, header, RECORD_BYTES_MAX)))
        for header, batch in batches_in(log)
    ]


def producers_of(directory: Path) -> list[list[int]]:
    last: dict[int, list[int]] = {}
    for path in sorted(directory.glob("*.log")):
        for header, _ in batches_in(path.read_bytes()):
            if header.producer_id >= 0:
                entry = last.setdefault(header.producer_id, [header.producer_id, 0, -1])
                entry[1] = header.producer_epoch
                if not header.is_control:
                    entry[2] = header.last_offset
    return list(last.values())


def clean_copy(copy: Path, cleaning: Cleaning) -> Any:
    """Our own cleaner on a directory; what it says it has done."""
    bases = sorted(int(path.stem) for path in copy.glob("*.log"))
    arguments = {
        "directory": str(copy),
        "segments": [
            {
                "base_offset": base,
                "size_bytes": (copy / f"{base:020d}.log").stat().st_size,
                "next_offset": next_base,
            }
            for base, next_base in itertools.pairwise(bases)
        ],
        "first_dirty_offset": cleaning.first_dirty_offset,
        "end_offset": bases[-1],
        "wall_ms": cleaning.wall_ms,
        "delete_retention_ms": cleaning.delete_retention_ms,
        "segment_bytes": SEGMENT_BYTES,
        "segment_index_bytes": 10 << 20,
        "index_interval_bytes": INDEX_INTERVAL_BYTES,
        "record_bytes_max": RECORD_BYTES_MAX,
        "map_bytes": 8 << 20,
        "load_factor": 0.9,
        "io_buffer_bytes": 1 << 16,
        "producers": producers_of(copy),
    }
    return json.loads(json.dumps(run_job("clean", arguments, RealFileSystem(), lambda _: None)))


def compare(cleaning: Cleaning, copy: Path, *, to_the_byte: bool) -> None:
    """Clean what Kafka cleaned; the files must be the same."""
    copy.mkdir()
    for name, data in cleaning.before.items():
        (copy / name).write_bytes(data)
    result = clean_copy(copy, cleaning)
    kafkas = {Path(name).stem: data for name, data in cleaning.after.items() if ".log" in name}
    assert result["end_offset"] == cleaning.end_offset
    assert [segment["base_offset"] for segment in result["segments"]] == [int(b) for b in kafkas]
    for base, log in kafkas.items():
        cleaned = (copy / f"{base}.log.cleaned").read_bytes()
        assert content(cleaned) == content(log)
        assert not to_the_byte or cleaned == log
        for suffix in ("index", "timeindex", "txnindex"):
            expected = cleaning.after.get(f"{base}.{suffix}")
            ours = copy / f"{base}.{suffix}.cleaned"
            assert ours.exists() == (expected is not None), ours
            if expected is not None and to_the_byte:
                assert ours.read_bytes() == expected, ours


@pytest.mark.parametrize("scenario", SCENARIOS, ids=attrgetter("name"))
def test_the_same_comes_out(
    scenario: Scenario, cleaner: Cleaner, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = 0
    for cleaning in cleaner.cleanings(scenario, request):
        compare(cleaning, tmp_path / str(count), to_the_byte=scenario.to_the_byte)
        count += 1
    assert count == len(scenario.fillings)
