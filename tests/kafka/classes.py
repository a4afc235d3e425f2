"""Write the archives of classes that the tests' JVMs start with: `python -m tests.kafka.classes`.

A ZooKeeper, a broker and tools run once, and at its end each JVM writes down what it has loaded.
Without archives all is well, but slow.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import SubprocessError
from typing import Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from .apache import ApacheKafka, apache_kafka
from .jars import VERSIONS, JarsMissing, classpath
from .java import JavaFailed, ToolRunner, tools_classpath
from .jvm import QUICK, archive
from .process import ServerFailed
from .zookeeper import JARS, zookeeper

TOPIC: Final = "t"


@contextmanager
def written(kind: str, class_path: str) -> Iterator[list[str]]:
    """Options of a JVM that runs and ends in the `with`; what it loaded is an archive then."""
    target = archive(kind, class_path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, and then renamed: two runs at once, or one cut short, leave nothing half.
    with tempfile.TemporaryDirectory(prefix=f".{kind}-", dir=target.parent) as folder:
        fresh = Path(folder) / "classes.jsa"
        yield [*QUICK, f"-XX:ArchiveClassesAtExit={fresh}"]
        for old in target.parent.glob(f"{kind}-*.jsa"):
            old.unlink(missing_ok=True)  # of other jars, or of another Java
        fresh.rename(target)


def write_zookeeper() -> None:
    """Of a server that has had a client.  Raises: ServerFailed, JarsMissing, OSError."""
    with (
        written("zookeeper", classpath(JARS)) as options,
        zookeeper(java_options=options) as server,
    ):
        client = KazooClient(server.address)
        client.start()
        client.create("/node", ephemeral=True)
        client.delete("/node")
        client.stop()
        client.close()
        server.stop()


def write_kafka(version: str) -> None:
    """Of a broker, and of the tools that ask it.

    Raises: ServerFailed, JavaFailed, JarsMissing, OSError.
    """
    with (
        written(f"broker-{version}", classpath(version)) as options,
        apache_kafka(version, jvm_options=options) as broker,
    ):
        with (
            written(f"tools-{version}", tools_classpath(version)) as tools_options,
            ToolRunner(version, jvm_options=tools_options) as tools,
        ):
            use_tools(tools, broker)
            tools.finish()
        broker.stop()


def use_tools(tools: ToolRunner, broker: ApacheKafka) -> None:
    """What creates topics, describes, produces, consumes, and reads files.  Raises: JavaFailed."""
    address = ("--bootstrap-server", broker.bootstrap_servers)
    topic = ("--topic", TOPIC)
    properties = ("--producer-props", f"bootstrap.servers={broker.bootstrap_servers}")
    load = ("--num-records", "100", "--record-size", "10", "--throughput", "-1")
    tools.run("TopicCommand", *address, "--create", *topic)
    tools.run("ConfigCommand", *address, "--describe", "--all", *topic)
    tools.run("ProducerPerformance", *topic, *load, *properties)
    tools.run("ConsoleProducer", *address, *topic, stdin=b"a\nb\n")
    tools.run("ConsoleConsumer", *address, *topic, "--from-beginning", "--max-messages", "102")
    tools.run("ConsumerGroupCommand", *address, "--describe", "--all-groups")
    tools.run("GetOffsetShell", *address, *topic)
    tools.run("LogDirsCommand", *address, "--describe")
    log = broker.data_dir / f"{TOPIC}-0" / f"{0:020d}.log"
    tools.run("DumpLogSegments", "--print-data-log", "--files", str(log))


def main() -> int:
    """Write what is missing; print one line each."""
    try:
        if not archive("zookeeper", classpath(JARS)).exists():
            write_zookeeper()
        for version in VERSIONS:
            kinds = {"broker": classpath(version), "tools": tools_classpath(version)}
            if not all(archive(f"{k}-{version}", path).exists() for k, path in kinds.items()):
                write_kafka(version)
            print(f"kafka {version}: JVMs start with their classes mapped")
    except (ServerFailed, JavaFailed, OSError, SubprocessError, KazooTimeoutError) as error:
        print(f"classes cannot be mapped, JVMs start slowly: {error}", file=sys.stderr)
    except JarsMissing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
