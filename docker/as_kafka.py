#!/opt/odradek/bin/python
"""Start a broker where Testcontainers expects Kafka's images to have their start script.

It takes the settings that those images take, KAFKA_… for each of Kafka's names, and says what
Testcontainers waits for once the broker serves.  docs/container.md names the modules.
"""

import os
import subprocess
import sys
from collections.abc import Mapping

DATA_DIR = "/var/lib/odradek/data"
# The modules' scripts start a ZooKeeper at this address. The image has none, and a single broker
# needs none.
ZOOKEEPER_OF_THE_SCRIPTS = "localhost:2181"
# One line for those who wait for Kafka with ZooKeeper, with KRaft, and as it was from 3.3 on.
STARTED = "[KafkaServer id=1] started, Kafka Server started, Transitioning from RECOVERY to RUNNING"


def settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a broker.  What it does not know it warns of, as anywhere else."""
    kafka = {
        name.removeprefix("KAFKA_"): value
        for name, value in environ.items()
        if name.startswith("KAFKA_")
    }
    # A KRaft node is a controller, too, with a listener of its own and another name for its number.
    of_controllers = kafka.pop("CONTROLLER_LISTENER_NAMES", "").split(",")
    node_id = kafka.pop("NODE_ID", None)
    if node_id is not None:
        kafka["BROKER_ID"] = node_id
    for name in ("PROCESS_ROLES", "CONTROLLER_QUORUM_VOTERS"):
        kafka.pop(name, None)
    if kafka.get("ZOOKEEPER_CONNECT") == ZOOKEEPER_OF_THE_SCRIPTS:
        del kafka["ZOOKEEPER_CONNECT"]
    kafka.setdefault("LISTENERS", "PLAINTEXT://0.0.0.0:9092")
    kafka.setdefault("ADVERTISED_LISTENERS", "PLAINTEXT://localhost:9092")
    for name in ("LISTENERS", "ADVERTISED_LISTENERS"):
        kafka[name] = ",".join(
            listener
            for listener in kafka[name].split(",")
            if listener.partition("://")[0] not in of_controllers
        )
    kafka.setdefault("LOG_DIRS", DATA_DIR)
    others = {name: value for name, value in environ.items() if not name.startswith("KAFKA_")}
    return {**{f"ODRADEK_{name}": value for name, value in kafka.items()}, **others}


def main() -> None:
    """Become the broker; a child adds to its output the line that is waited for."""
    adding = ["sed", "-u", f"/^odradek ready: /a {STARTED}"]
    output = subprocess.Popen(adding, stdin=subprocess.PIPE).stdin
    assert output is not None
    os.dup2(output.fileno(), sys.stdout.fileno())
    broker = [sys.executable, "-m", "odradek", "serve"]
    os.execve(sys.executable, broker, settings(os.environ))


if __name__ == "__main__":
    main()
