"""The raw clients against the bare socket loop: both keep to the same bytes."""

import argparse
import gc
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import topics, wire
from benchmarks.clients import fetch_spans, one_record
from benchmarks.connection import Address
from benchmarks.floor import floor_server

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def garbage_is_collected() -> Iterator[None]:
    """The clients end with their process, and leave it without a collector: this one goes on."""
    yield
    gc.enable()


@pytest.mark.parametrize("depth", [1, 16])
def test_one_record_produce(tmp_path: Path, depth: int) -> None:
    with floor_server(tmp_path) as address:
        summary = one_record.measure(address, "floor", seconds=0.02, depth=depth)
    assert summary["rate"] > 0
    if depth == 1:
        assert summary["p50"] <= summary["p99"] <= summary["p99_9"]


def test_fetch_wraps_around_at_the_end(tmp_path: Path) -> None:
    topic = topics.Topic("floor", bytes(16))
    filling = topics.equal_batches(topic, 1 << 20, 16 << 10)
    span = ("--span-bytes", str(filling.batch_size_bytes), "--file-bytes", str(1 << 20))
    given = argparse.Namespace(
        topic_id=topic.topic_id.hex(),
        span_bytes=16 << 10,
        batch_bytes=filling.batch_size_bytes,
        batch_records=filling.batch_records,
        records=filling.record_count,
        authority=None,
    )

    def read_bytes(seconds: float) -> float:
        given.seconds = seconds
        return fetch_spans.measure(given)["rate"] * seconds

    with floor_server(tmp_path, *span) as given.address:
        # Where the machine stops, the time is over before the file is: then with more of it.
        assert any(read_bytes(seconds) > filling.size_bytes for seconds in (0.05, 1, 10))


def test_fill_writes_the_frames(tmp_path: Path) -> None:
    with floor_server(tmp_path) as address:
        topic = topics.Topic("floor", bytes(16))
        filling = topics.fill(address, topic, size_bytes=3 << 20, batch_size_bytes_max=128 << 10)
    assert filling.size_bytes >= 3 << 20
    assert (tmp_path / "floor").stat().st_size > filling.size_bytes


def test_a_refused_batch_is_noticed() -> None:
    answer = bytearray(wire.produce_answer("full"))
    wire.INT16.pack_into(answer, wire.produce_error_position("full"), 10)

    def refuse(listener: socket.socket) -> None:
        connected, _ = listener.accept()
        with connected:
            connected.recv(65536)
            connected.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse, args=[listener])
        thread.start()
        address = Address(*listener.getsockname())
        topic = topics.Topic("full", bytes(16))
        with pytest.raises(RuntimeError, match="error code 10"):
            topics.fill(address, topic, size_bytes=1, batch_size_bytes_max=2000)
        thread.join()
