"""What the images start and ask, started and asked without them."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from odradek.testing import Broker
from tests.kafka.process import free_port
from tests.support.certificates import Certificates
from tests.wire.servers import OdradekServer

DOCKER: Final = Path(__file__).parent.parent.parent / "docker"
AS_KAFKA: Final = DOCKER / "as_kafka.py"


def is_healthy(port: int, *file: str, **environ: str) -> bool:
    command = [sys.executable, str(DOCKER / "healthcheck.py"), str(port), *file]
    environment = {**os.environ, **environ}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr or not file
    return done.returncode == 0


@pytest.mark.slow
@pytest.mark.wire  # 1 s
def test_health_check_is_answered_by_a_broker() -> None:
    broker = Broker()
    with broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        assert is_healthy(port)
    assert not is_healthy(port)


@pytest.mark.slow
@pytest.mark.wire  # 3 s
def test_health_check_of_a_broker_with_tls(tmp_path: Path, certificates: Certificates) -> None:
    file = tmp_path / "health.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.ca.location={certificates.trust}\n"
        "socket.connection.setup.timeout.ms=30000\n"
    )
    server = OdradekServer(tmp_path)
    tls = free_port()
    server.settings |= {
        "listeners": f"PLAINTEXT://127.0.0.1:{server.port},SSL://127.0.0.1:{tls}",
        "ssl.keystore.location": str(certificates.broker.store),
    }
    try:
        server.start()
        assert is_healthy(tls, str(file))
        assert is_healthy(tls, ODRADEK_HEALTH_CONFIG=str(file))
        assert not is_healthy(server.port, str(file))
        assert not is_healthy(tls)
        file.write_text("security.protocol=SSL\n")
        assert not is_healthy(tls, str(file))  # nobody trusts it
    finally:
        server.close()
    assert not is_healthy(tls, str(file))


KRAFT: Final = {
    "KAFKA_LISTENERS": "PLAINTEXT://:0,BROKER://:0,CONTROLLER://:0",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092,BROKER://localhost:9093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
        "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "7@localhost:9094",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_NODE_ID": "7",
}


def settings(environ: dict[str, str]) -> dict[str, str]:
    given: dict[str, str] = runpy.run_path(str(AS_KAFKA))["settings"](environ)
    return given


def test_a_kraft_node_becomes_a_broker() -> None:
    mapped = settings({**KRAFT, "KAFKA_LOG_DIRS": "/data", "PATH": "/bin"})
    kept = ("ADVERTISED_LISTENERS", "LISTENER_SECURITY_PROTOCOL_MAP", "INTER_BROKER_LISTENER_NAME")
    assert mapped == {
        "ODRADEK_LISTENERS": "PLAINTEXT://:0,BROKER://:0",
        **{f"ODRADEK_{name}": KRAFT[f"KAFKA_{name}"] for name in kept},
        "ODRADEK_BROKER_ID": "7",
        "ODRADEK_LOG_DIRS": "/data",
        "PATH": "/bin",
    }


def test_only_the_zookeeper_that_is_not_there_is_passed_over() -> None:
    name = "ODRADEK_ZOOKEEPER_CONNECT"
    assert name not in settings({"KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"})
    assert settings({"KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181"})[name] == "zookeeper:2181"


def test_what_odradek_is_told_goes_before_what_kafka_is_told() -> None:
    told = {"KAFKA_BROKER_ID": "1", "ODRADEK_BROKER_ID": "2"}
    assert settings(told)["ODRADEK_BROKER_ID"] == "2"


@pytest.mark.slow
@pytest.mark.wire  # 1 s
def test_the_lines_that_are_waited_for_follow_the_broker_s_own(tmp_path: Path) -> None:
    command = [sys.executable, str(AS_KAFKA)]
    environment = {**os.environ, **KRAFT, "KAFKA_LOG_DIRS": str(tmp_path / "data")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert " broker=7 " in process.stdout.readline()
            started = process.stdout.readline().strip()
            for awaited in (
                r".*\[KafkaServer id=\d+\] started.*",
                ".*Kafka Server started.*",
                ".*Transitioning from RECOVERY to RUNNING.*",
            ):
                assert re.fullmatch(awaited, started)
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
