"""Starting where one cannot: one sentence on stderr, exit code 1, no traceback. And stopping."""

import json
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from odradek.broker.cluster.broker_requests import PARTITIONS_MAX
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse
from tests.kafka.process import killed_at_the_end
from tests.support.brokers import StartServer, create_topic
from tests.support.connections import HungUp, RawConnection
from tests.support.frames import request_bytes
from tests.wire.servers import OdradekServer, Server, serve_command

TIMEOUT_S = 60.0


def refused(
    data_dir: Path,
    *arguments: str,
    listen: str = "127.0.0.1:0",
    settings: Mapping[str, str] | None = None,
) -> str:
    """What `odradek serve` says when it does not start."""
    done = subprocess.run(
        [*serve_command(data_dir, settings, listen=listen), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if " INFO " not in line]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_port_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = refused(tmp_path / "data", listen=f"127.0.0.1:{port}")
    assert str(port) in sentence


def test_data_directory_locked(tmp_path: Path) -> None:
    server = OdradekServer(tmp_path / "server")
    try:
        server.start()
        assert str(server.data_dir) in refused(server.data_dir)
    finally:
        server.close()


def test_data_directory_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    assert "file" in refused(tmp_path / "file" / "data")


def test_data_directory_read_only() -> None:
    """A pseudo file system that even root cannot write to."""
    assert "/proc" in refused(Path("/proc/odradek-data"))


def test_data_directory_of_another_broker(tmp_path: Path) -> None:
    server = OdradekServer(tmp_path)
    try:
        server.start()
        server.stop()
    finally:
        server.close()
    sentence = refused(server.data_dir, "--broker-id", "7")
    assert "7" in sentence
    assert "broker" in sentence


def test_data_directory_of_another_cluster(tmp_path: Path) -> None:
    server = OdradekServer(tmp_path)
    try:
        server.start()
        server.stop()
    finally:
        server.close()
    meta = server.data_dir / "meta.properties"
    lines = meta.read_text().splitlines()
    changed = [
        "cluster.id=" + "x" * 22 if line.startswith("cluster.id") else line for line in lines
    ]
    assert changed != lines
    meta.write_text("\n".join(changed) + "\n")
    assert "cluster" in refused(server.data_dir)


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    assert "num.partitions" in refused(tmp_path, settings={"num.partitions": "none"})
    assert "advertised.listeners" in refused(tmp_path, listen="0.0.0.0:0")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
def test_signals_stop_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """Exit code 0, and the marker of a clean shutdown is Kafka's."""
    command = serve_command(tmp_path / "data")
    with killed_at_the_end(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("odradek ready: PLAINTEXT://127.0.0.1:")
        address = ready.split()[2].removeprefix("PLAINTEXT://")
        create_topic(address, "stopped")
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err
    marker = tmp_path / "data" / ".kafka_cleanshutdown"
    assert json.loads(marker.read_text())["version"] == 0
    shutil.rmtree(tmp_path / "data")


def test_a_signal_while_it_waits_to_start(tmp_path: Path) -> None:
    """For ZooKeeper here, as for the session of a broker that was killed."""
    command = serve_command(tmp_path, {"zookeeper.connect": "127.0.0.1:1"})
    with killed_at_the_end(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ) as process:
        assert process.stderr is not None
        assert b"broker starts" in process.stderr.readline()
        assert b"trying for" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=TIMEOUT_S / 3)
    assert (process.returncode, out, err) == (0, b"", b"")


def first_answer(server: Server) -> MetadataResponse:
    """What a broker that starts says first of all topics, to a client that waits for it."""
    asked = request_bytes(MetadataRequest(topics=None), 1)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            with RawConnection(server.host, server.port) as connection:
                answer, _ = MetadataResponse.decode(connection.ask(asked), 1)
                return answer
        except (ConnectionRefusedError, ConnectionResetError, HungUp):
            assert time.monotonic() < deadline
            time.sleep(0.001)


def test_the_first_answer_names_all_there_is(start_server: StartServer, odradek_only: None) -> None:
    """Apache Kafka names no broker at first, then no topic."""
    server = start_server()
    topics = {f"t{number}": PARTITIONS_MAX // 2 + 1 for number in range(2)}  # two UpdateMetadata
    for name, partitions in topics.items():
        create_topic(server.bootstrap_servers, name, partitions=partitions)
    for _ in range(3):
        server.kill()
        starting = threading.Thread(target=server.start)
        starting.start()
        answer = first_answer(server)
        starting.join()
        assert [broker.node_id for broker in answer.brokers] == [answer.controller_id] == [0]
        assert {topic.name: len(topic.partitions) for topic in answer.topics} == topics
