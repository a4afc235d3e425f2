"""What a workload says of a run that is over."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.protocol.records import Record, build_batch
from tests.lab.verify.events import Span, line
from tests.lab.verify.workload import Workload

END = 2


@pytest.fixture
def load(tmp_path: Path) -> Workload:
    """Four brokers, two partitions; both readers have read each up to its second record."""
    brokers = {n: SimpleNamespace(data_dir=tmp_path / f"broker-{n}") for n in range(4)}
    lab: Any = SimpleNamespace(brokers=brokers)
    load = Workload(lab, "kept", history=tmp_path / "history.jsonl")
    spans = [Span(reader, n, 0, END, 1.0) for reader in ("java", "librdkafka") for n in range(2)]
    load.history.write_text("".join(map(line, spans)))
    return load


def write(load: Workload, broker: int, partition: int, *values: bytes) -> None:
    directory = load._lab.brokers[broker].data_dir / f"kept-{partition}"
    directory.mkdir(parents=True)
    batches = [build_batch([Record(n, 0, None, value)]) for n, value in enumerate(values)]
    (directory / f"{0:020}.log").write_bytes(b"".join(batches))


def test_the_logs_of_those_that_have_a_partition_are_compared(load: Workload) -> None:
    replicas = {0: (0, 1, 2), 1: (1, 2, 3)}
    for partition, brokers in replicas.items():
        for broker in brokers:
            write(load, broker, partition, b"a", b"b", b"not committed on %d" % broker)
    assert load.compare_logs(replicas) == []
    assert load.compare_logs() == [
        "partition 0: broker 3 ends at 0, not 2",
        "partition 0: broker 0 and broker 3 differ at offset 0",
        "partition 0: broker 0 and broker 3 differ at offset 1",
        "partition 1: broker 0 ends at 0, not 2",
        *(
            f"partition 1: broker 0 and broker {b} differ at offset {n}"
            for b in (1, 2, 3)
            for n in (0, 1)
        ),
    ]
    write(load, 3, 0, b"a", b"c")
    assert load.compare_logs({**replicas, 0: (0, 3)}) == [
        "partition 0: broker 0 and broker 3 differ at offset 1"
    ]


def test_logs_of_which_nothing_was_read_are_not_the_same(load: Workload) -> None:
    load.history.write_text("")
    with pytest.raises(AssertionError, match="nothing was read back"):
        load.compare_logs()


def test_a_run_with_a_handful_of_records_does_not_count(load: Workload) -> None:
    writers: list[Any] = [SimpleNamespace(progress={"acked": n}) for n in (3, 4)]
    load.writers = writers
    assert load.missing(acknowledged=7) == []
    assert load.missing(acknowledged=8, kills=1) == [
        "only 0 of 1 kills",
        "only 7 of 8 acknowledged",
    ]
