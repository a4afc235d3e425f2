"""What the Kafka modules of Testcontainers do to a container, done to the image made for them.

Sources: `testcontainers.kafka.KafkaContainer` (Python); `org.testcontainers.kafka.KafkaContainer`
and `ConfluentKafkaContainer`, and the deprecated `org.testcontainers.containers.KafkaContainer`
(Java).  Each starts a shell that waits for a script, learns which port Docker has chosen, puts that
into the script, copies it into the container, and waits for a line of the log.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.docker.conftest import Images
from tests.docker.containers import HOSTNAME, Container
from tests.release.smoke import exchange

pytestmark = [pytest.mark.root, pytest.mark.soak]

COMMON: Final = {
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
WITH_ZOOKEEPER: Final = {
    **COMMON,
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_BROKER_ID": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "10000000",
}
OF_A_CONTROLLER: Final = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
        "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
}
OF_JAVA: Final = {
    **COMMON,
    **OF_A_CONTROLLER,
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": str(2**63 - 1),
}
ZOOKEEPER_STARTS: Final = (
    "echo clientPort=2181 > zookeeper.properties",
    "zookeeper-server-start zookeeper.properties &",
    "export KAFKA_ZOOKEEPER_CONNECT=localhost:2181",
)
STORAGE_IS_FORMATTED: Final = (
    "sed -i /KAFKA_ZOOKEEPER_CONNECT/d /etc/confluent/docker/configure",
    "echo kafka-storage format -t 1 >> /etc/confluent/docker/configure",
)
STEPS: Final = (
    ". /etc/confluent/docker/bash-config",
    "/etc/confluent/docker/configure",
    "/etc/confluent/docker/launch",
)


@dataclass(frozen=True)
class Module:
    """What a module gives a container: variables, where its script lies, what that runs."""

    environment: dict[str, str]
    script: str
    awaited: str
    """A pattern that a line of the log must match."""
    port: int
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ("/etc/kafka/docker/run",)
    is_executed: bool = True
    """Or it is the argument of a shell, and nobody made it executable."""
    own_address: str = field(default=f"{HOSTNAME}:9093")


MODULES: Final = {
    "python": Module(
        WITH_ZOOKEEPER, "/tc-start.sh", r"\[KafkaServer id=\d+\] started", 9093,
        ZOOKEEPER_STARTS, STEPS, is_executed=False, own_address="$(hostname -i):9092",
    ),
    "python, KRaft": Module(
        {
            **WITH_ZOOKEEPER,
            **OF_A_CONTROLLER,
            "KAFKA_LISTENERS": f"{WITH_ZOOKEEPER['KAFKA_LISTENERS']},CONTROLLER://0.0.0.0:9094",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
        },
        "/tc-start.sh", "Kafka Server started", 9093,
        STORAGE_IS_FORMATTED, STEPS, is_executed=False, own_address="$(hostname -i):9092",
    ),
    "java, apache": Module(
        OF_JAVA, "/tmp/testcontainers_start.sh", "Transitioning from RECOVERY to RUNNING", 9092
    ),
    "java, confluent": Module(
        OF_JAVA, "/tmp/testcontainers_start.sh", "Transitioning from RECOVERY to RUNNING", 9092,
        after=("/etc/confluent/docker/run",),
    ),
    "java, deprecated": Module(
        WITH_ZOOKEEPER, "/testcontainers_start.sh", r"\[KafkaServer id=\d+\] started", 9093,
        (*ZOOKEEPER_STARTS, "echo > /etc/confluent/docker/ensure"), ("/etc/confluent/docker/run",),
        own_address=f"{HOSTNAME}:9092",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_module_starts_a_broker(images: Images, name: str, tmp_path: Path) -> None:
    image = images.testcontainers
    module = MODULES[name]
    run = module.script if module.is_executed else f"sh {module.script}"
    command = ["sh", "-c", f"while [ ! -f {module.script} ]; do sleep 0.1; done; {run}"]
    started = Container(
        image, tmp_path / "volume", command=command, environment=module.environment,
        read_only=False,
    )  # fmt: skip
    script = image.root / module.script.lstrip("/")
    with started as container:
        address = f"localhost:{module.port}"
        advertised = f"PLAINTEXT://{address},BROKER://{module.own_address}"
        lines = [
            "#!/bin/bash",
            *module.before,
            f"export KAFKA_ADVERTISED_LISTENERS={advertised}",
            *module.after,
        ]
        try:
            ready = script.with_suffix(".new")  # a container never sees half a script
            ready.write_text("\n".join(lines) + "\n")
            ready.chmod(0o777 if module.is_executed else 0o644)
            ready.rename(script)
            container.wait_for(lambda: re.search(module.awaited, container.log.read_text()))
            exchange([*container.enter(), "odradek"], address)
            assert container.is_healthy()
        finally:
            script.unlink(missing_ok=True)
