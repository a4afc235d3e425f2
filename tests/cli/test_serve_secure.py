"""`odradek serve --secure`: every client comes in with its file, nobody without."""

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from tests.cli.conftest import run_odradek
from tests.cli.test_serve import line_of, refusal, serving
from tests.kafka.java import ToolRunner

pytestmark = pytest.mark.wire
FILES = (
    "java.properties",
    "librdkafka.conf",
    "confluent.json",
    "kafka-python.json",
    "aiokafka.py",
    "spark.json",
)


def arguments(directory: Path, *more: str, port: str = "0") -> tuple[str, ...]:
    return ("--secure", "--listen", f"127.0.0.1:{port}", "--data-dir", str(directory), *more)


def client_files(process: "subprocess.Popen[str]") -> dict[str, Path]:
    """The files that the lines after the ready line name."""
    ready = line_of(process.stdout)
    assert ready.startswith("odradek ready: SASL_SSL://127.0.0.1:"), ready
    intro, paths = "odradek client file: ", list[Path]()
    while len(paths) < len(FILES):  # several brokers have a line of their own
        line = line_of(process.stdout).strip()
        paths += [Path(line.removeprefix(intro))] if line.startswith(intro) else []
    return {name: path for path in paths for name in FILES if path.name.endswith(name)}


def with_kafka_python(files: dict[str, Path]) -> None:
    producer = KafkaProducer(**json.loads(files["kafka-python.json"].read_text()))
    producer.send("t", b"kafka-python", partition=0).get(30)
    producer.close()


def with_aiokafka(files: dict[str, Path]) -> None:
    async def write() -> None:
        async with AIOKafkaProducer(**run_path(str(files["aiokafka.py"]))["config"]) as producer:
            await producer.send_and_wait("t", b"aiokafka", partition=0)

    asyncio.run(write())


def with_confluent(files: dict[str, Path]) -> None:
    producer = Producer(json.loads(files["confluent.json"].read_text()))
    producer.produce("t", b"confluent", partition=0)
    assert producer.flush(30) == 0


def with_kcat(files: dict[str, Path]) -> None:
    command = ["kcat", "-F", str(files["librdkafka.conf"]), "-P", "-t", "t", "-p", "0"]
    subprocess.run(command, input=b"kcat\n", check=True, timeout=60)


def with_odradek(files: dict[str, Path]) -> None:
    command = ("produce", "t", "-p", "0", "-F", str(files["java.properties"]))
    done = run_odradek(*command, stdin=b"odradek\n")
    assert done.returncode == 0, done.stderr


WRITERS: tuple[Callable[[dict[str, Path]], None], ...] = (
    with_kafka_python,
    with_aiokafka,
    with_confluent,
    with_kcat,
    with_odradek,
)


def read_all(files: dict[str, Path], count: int) -> set[bytes]:
    config: dict[str, Any] = json.loads(files["confluent.json"].read_text())
    consumer = Consumer({**config, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    found = [consumer.poll(30) for _ in range(count)]
    consumer.close()
    return {message.value() for message in found if message is not None}


@pytest.mark.parametrize("brokers", [pytest.param("1", marks=pytest.mark.soak), "3"])
def test_every_client_comes_in_with_its_file(
    brokers: str, tmp_path: Path, tools: ToolRunner
) -> None:
    with serving(*arguments(tmp_path, "--brokers", brokers)) as process:
        files = client_files(process)
        servers = json.loads(files["confluent.json"].read_text())["bootstrap.servers"]
        for write in WRITERS:
            write(files)
        names = {write.__name__.removeprefix("with_").replace("_", "-") for write in WRITERS}
        assert read_all(files, len(WRITERS)) == {name.encode() for name in names}
        listed = tools.run(
            "TopicCommand",
            *("--bootstrap-server", servers, "--command-config", str(files["java.properties"])),
            "--list",
        )
        assert "t" in listed.stdout.split()
        stranger = AdminClient({"bootstrap.servers": servers, "socket.timeout.ms": 2000})
        with pytest.raises(KafkaException):
            stranger.list_topics(timeout=2)


def test_a_restart_keeps_what_clients_have(tmp_path: Path) -> None:
    with serving(*arguments(tmp_path)) as process:
        first = {name: path.read_text() for name, path in client_files(process).items()}
        process.terminate()
        rest, log = process.communicate(timeout=30)
        assert (process.returncode, rest) == (0, ""), log
    port = json.loads(first["confluent.json"])["bootstrap.servers"].rpartition(":")[2]
    with serving(*arguments(tmp_path, port=port)) as process:
        files = client_files(process)
        assert {name: path.read_text() for name, path in files.items()} == first
        with_confluent(files)


def test_nothing_secret_is_printed(tmp_path: Path) -> None:
    with serving(*arguments(tmp_path, "--log-level", "debug")) as process:
        files = client_files(process)
        with_confluent(files)
        password = json.loads(files["confluent.json"].read_text())["sasl.password"]
        process.terminate()
        rest, log = process.communicate(timeout=30)
        assert password not in rest + log


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (("--zookeeper", "127.0.0.1:1"), "--secure is for brokers of one process"),
        (("--set", "ssl.client.auth=none"), "--secure and ssl.client.auth exclude each other"),
        (
            ("--set", "sasl.enabled.mechanisms=PLAIN"),
            "--secure and sasl.enabled.mechanisms exclude each other",
        ),
    ],
)
def test_what_it_sets_itself_is_refused(
    given: tuple[str, str], reason: str, tmp_path: Path
) -> None:
    assert refusal(*arguments(tmp_path / "data", *given)).startswith(reason)
    assert not (tmp_path / "data").exists()
