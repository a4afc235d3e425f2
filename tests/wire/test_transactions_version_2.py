"""Java's producer with version 2 of transactions (KIP-890), through kills."""

from pathlib import Path
from typing import Final

import pytest

from odradek.protocol.records import iter_batches
from tests.seeds import Repeats, repeated
from tests.support.brokers import StartServer
from tests.wire.copying import SETTINGS, TARGET
from tests.wire.servers import OdradekServer, Server
from tests.wire.test_transactions_kill import copy

VERSION_2: Final = {**SETTINGS, "odradek.transaction.version": "2"}
THREE_BROKERS: Final = ("--brokers", "3")


@pytest.mark.java
@repeated(in_test=2, in_soak=10, each_s=60)
def test_a_broker_and_a_client_are_killed(
    start_server: StartServer, tmp_path: Path, repeats: Repeats
) -> None:
    server = start_server(VERSION_2)
    copy_with_java(server, tmp_path, repeats)
    for log in server.data_dir.glob(f"{TARGET}-*"):
        assert_each_transaction_has_its_epoch(log)


@pytest.mark.java
@repeated(in_soak=10, each_s=60)
def test_three_brokers_and_a_client_are_killed(tmp_path: Path, repeats: Repeats) -> None:
    server = OdradekServer(tmp_path / "cluster", VERSION_2, arguments=THREE_BROKERS)
    try:
        server.start()
        copy_with_java(server, tmp_path, repeats)
    finally:
        server.close()


def copy_with_java(server: Server, directory: Path, repeats: Repeats) -> None:
    copy(
        server,
        directory,
        repeats,
        client="java-4.3.1",
        victims="in turn",
        records=5_000,
        partitions=1,
    )


def assert_each_transaction_has_its_epoch(log_dir: Path) -> None:
    """Each marker has a later epoch than the records that it ends."""
    last: dict[int, int] = {}
    markers = 0
    for path in sorted(log_dir.glob("*.log")):
        for _, header in iter_batches(memoryview(path.read_bytes())):
            before = last.get(header.producer_id, -1)
            assert header.producer_epoch >= before + header.is_control
            last[header.producer_id] = header.producer_epoch
            markers += header.is_control
    assert markers > 10
