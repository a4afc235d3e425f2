"""`odradek serve` as a process: the ready line, the ends, the refusals."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from odradek import __version__

pytestmark = pytest.mark.wire

READY = re.compile(
    r"odradek ready: PLAINTEXT://127\.0\.0\.1:(\d+) broker=(\d+) data=(.+) startup_ms=(\d+)\n"
)
FORBIDDEN = (
    "rich",
    "kazoo",
    "kafka",
    "aiokafka",
    "confluent_kafka",
    "pyspark",
    "prometheus_client",
)


@contextmanager
def serving(*arguments: str, python: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """A started `odradek serve`, killed at the end if need be."""
    with subprocess.Popen(
        [sys.executable, *python, "-m", "odradek", "serve", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def refusal(*arguments: str, python: tuple[str, ...] = ()) -> str:
    """The sentence with which a start is refused."""
    command = [sys.executable, *python, "-m", "odradek", "serve", *arguments]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, ""), done
    assert "Traceback" not in done.stderr
    *_, last = done.stderr.splitlines()
    assert last.startswith("Error: "), done.stderr
    return last.removeprefix("Error: ")


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_one_ready_line_and_a_clean_end(signal_number: int, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with serving(
        *("--listen", "127.0.0.1:0", "--data-dir", data, "--broker-id", "7"),
        # It warns of nothing; but of its loop, if the machine stands still for 50 ms.
        *("--log-level", "warning", "--set", "odradek.loop.stall.check.ms=0"),
    ) as broker:
        ready = READY.fullmatch(line_of(broker.stdout))
        assert ready is not None
        port, broker_id, shown_data, startup_ms = ready.groups()
        assert (broker_id, shown_data) == ("7", data)
        assert 0 < int(startup_ms) < 30_000
        socket.create_connection(("127.0.0.1", int(port)), timeout=5).close()
        broker.send_signal(signal_number)
        rest, log = broker.communicate(timeout=30)
        assert (broker.returncode, rest, log) == (0, "", "")


def test_the_end_of_stdin_ends_it(tmp_path: Path) -> None:
    arguments = ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path))
    with serving(*arguments, "--stop-with-stdin") as broker:
        assert READY.fullmatch(line_of(broker.stdout))
        assert broker.stdin is not None
        broker.stdin.close()
        assert broker.wait(30) == 0
    assert "pipe or a terminal" in refusal(*arguments, "--stop-with-stdin")


def test_settings_from_file_and_command_line(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"listeners=PLAINTEXT://127.0.0.1:0\nbroker.id=3\nlog.dirs={tmp_path}/a\nno.such.key=1\n"
    )
    with serving("-c", str(properties), "--set", f"log.dirs={tmp_path}/b") as broker:
        ready = READY.fullmatch(line_of(broker.stdout))
        assert ready is not None
        assert ready.groups()[1:3] == ("3", f"{tmp_path}/b")
        broker.send_signal(signal.SIGTERM)
        _, log = broker.communicate(timeout=30)
    assert "no.such.key" in log, "an unknown key warns"


def test_json_log(tmp_path: Path) -> None:
    arguments = ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path), "--log-format", "json")
    with serving(*arguments, "--set", "no.such.key=1") as broker:
        assert READY.fullmatch(line_of(broker.stdout))
        broker.send_signal(signal.SIGTERM)
        _, log = broker.communicate(timeout=30)
    entries = [json.loads(line) for line in log.splitlines()]
    assert any("no.such.key" in entry["message"] for entry in entries)
    starts = {"message": "broker starts", "version": __version__, "directories": str(tmp_path)}
    assert starts.items() <= entries[1].items()
    assert {"message": "broker stopped cleanly", "broker": 0}.items() <= entries[-1].items()


def test_what_cannot_start_is_one_sentence(tmp_path: Path) -> None:
    listen = ("--listen", "127.0.0.1:0")
    with serving(*listen, "--data-dir", str(tmp_path / "a")) as broker:
        ready = READY.fullmatch(line_of(broker.stdout))
        assert ready is not None
        taken = f"127.0.0.1:{ready[1]}"
        assert ready[1] in refusal("--listen", taken, "--data-dir", str(tmp_path / "b"))
        assert str(tmp_path / "a") in refusal(*listen, "--data-dir", str(tmp_path / "a"))
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(30) == 0
    own = ("--data-dir", str(tmp_path / "a"))
    assert "9" in refusal(*listen, *own, "--broker-id", "9"), "the directory of another broker"
    (tmp_path / "file").write_text("")
    assert "file" in refusal(*listen, "--data-dir", str(tmp_path / "file" / "data"))
    assert "num.partitions" in refusal(*listen, *own, "--set", "num.partitions=many")
    assert "nowhere.properties" in refusal("-c", str(tmp_path / "nowhere.properties"))
    assert "python -O" in refusal(*listen, *own, python=("-O",))
    assert refusal("--listen", "127.0.0.1:x", *own)


def test_wrong_usage_is_exit_code_2() -> None:
    for arguments in (["--set", "x"], ["--broker-id", "x"], ["--log-format", "xml"], ["--prot"]):
        command = [sys.executable, "-m", "odradek", "serve", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (2, "")


def test_a_serving_broker_has_imported_no_client_library(tmp_path: Path) -> None:
    arguments = ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path))
    with serving(*arguments, python=("-X", "importtime")) as broker:
        assert READY.fullmatch(line_of(broker.stdout))
        broker.send_signal(signal.SIGTERM)
        _, report = broker.communicate(timeout=30)
    imported = {
        line.rpartition("|")[2].strip()
        for line in report.splitlines()
        if line.startswith("import time:")
    }
    assert "odradek.broker.server" in imported
    assert not {name for name in imported if name.split(".")[0] in FORBIDDEN}
    assert not {
        name for name in imported if name.split(".")[0] in ("broker", "protocol", "storage")
    }
