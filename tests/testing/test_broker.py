"""`odradek.testing.Broker`: start, stop, kill, restart, in a child process and in this one."""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from odradek.testing import Broker, BrokerFailed
from tests.support.waiting import until

pytestmark = pytest.mark.wire


def write(broker: Broker, topic: str, value: bytes) -> None:
    producer = KafkaProducer(**broker.client_config("kafka-python"))
    producer.send(topic, value, partition=0).get(30)
    producer.close()


def read(broker: Broker, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(**broker.client_config("kafka-python"), consumer_timeout_ms=30_000)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    values = [next(consumer).value for _ in range(count)]
    consumer.close()
    return values


def crash(broker: Broker) -> None:
    """Kill the child behind the object's back."""
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGKILL)
    until(lambda: not broker.running)


def topic_names(broker: Broker) -> set[str]:
    admin = KafkaAdminClient(**broker.client_config("kafka-python"))
    names = set(admin.list_topics())
    admin.close()
    return names


def partition_count(broker: Broker, topic: str) -> int:
    admin = KafkaAdminClient(**broker.client_config("kafka-python"))
    (described,) = admin.describe_topics([topic])
    admin.close()
    return len(described["partitions"])


def test_client_configs_reach_it() -> None:
    async def with_aiokafka(broker: Broker) -> None:
        producer = AIOKafkaProducer(**broker.client_config("aiokafka"))
        await producer.start()
        await producer.send_and_wait("orders", b"from aiokafka", partition=0)
        await producer.stop()

    with Broker() as broker:
        asyncio.run(with_aiokafka(broker))
        producer = Producer(broker.client_config("confluent"))
        producer.produce("orders", b"from confluent", partition=0)
        assert producer.flush(30) == 0
        assert read(broker, "orders", 2) == [b"from aiokafka", b"from confluent"]
        assert broker.client_config("java") == {"bootstrap.servers": broker.bootstrap_servers}
        assert broker.client_config("spark") == {
            "kafka.bootstrap.servers": broker.bootstrap_servers
        }


@pytest.fixture(params=[False, True], ids=["child", "in_process"])
def in_process(request: pytest.FixtureRequest) -> Iterator[bool]:
    chosen: bool = request.param
    yield chosen


def test_writes_and_reads_and_leaves_nothing(in_process: bool) -> None:
    with Broker(settings={"num.partitions": 3}, in_process=in_process) as broker:
        assert broker.running
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
        assert broker.startup_ms >= 0
        data_dir, port = broker.data_dir, broker.port
        write(broker, "orders", b"one")
        assert read(broker, "orders", 1) == [b"one"]
        assert partition_count(broker, "orders") == 3
        assert (data_dir / "orders-0").is_dir()
    assert not broker.running
    assert not data_dir.parent.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_restart_keeps_port_and_records(in_process: bool, tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data", in_process=in_process) as broker:
        write(broker, "orders", b"one")
        port, pid = broker.port, broker.pid
        broker.restart()
        assert broker.port == port
        assert broker.pid != pid or in_process
        assert read(broker, "orders", 1) == [b"one"]
    assert (tmp_path / "data" / "orders-0").is_dir(), "a directory that was given stays"


def test_kill_and_start_keeps_port_and_records() -> None:
    with Broker() as broker:
        write(broker, "orders", b"one")
        port = broker.port
        broker.kill()
        assert not broker.running
        broker.start()
        assert broker.port == port
        assert read(broker, "orders", 1) == [b"one"]


def test_a_broker_in_this_process_cannot_be_killed() -> None:
    with Broker(in_process=True) as broker:
        with pytest.raises(RuntimeError, match="cannot be killed"):
            broker.kill()
        assert broker.running


@pytest.mark.parametrize("settings", [{}, {"num.partitions": "many"}], ids=["starts", "fails"])
@pytest.mark.parametrize("collects", [True, False])
def test_a_start_in_this_process_leaves_its_collector_as_it_was(
    settings: dict[str, str], collects: bool
) -> None:
    if not collects:
        gc.disable()
    try:
        with suppress(BrokerFailed), Broker(in_process=True, settings=settings):
            assert gc.isenabled() is collects
        assert gc.isenabled() is collects
    finally:
        gc.enable()


@pytest.mark.parametrize(("owner", "name"), [(gc, "disable"), (threading.Thread, "start")])
def test_ctrl_c_during_a_start_in_this_process(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    """It ends the start and the thread, and leaves the collector on."""
    original = getattr(owner, name)

    def interrupted(*arguments: Any) -> None:
        monkeypatch.undo()
        original(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            Broker(in_process=True).start()
        assert gc.isenabled()
    finally:
        gc.enable()
    assert not [thread for thread in threading.enumerate() if thread.name == "odradek"]


def test_in_process_broker_has_its_own_loop_and_thread() -> None:
    async def session() -> None:
        threads = {thread.name for thread in threading.enumerate()}
        async with Broker(in_process=True) as broker:
            own = {thread.name for thread in threading.enumerate()} - threads
            assert "odradek" in own
            write(broker, "orders", b"one")  # while this loop stands still

    asyncio.run(session())
    assert "odradek" not in {thread.name for thread in threading.enumerate()}


def test_async_with_does_not_block_the_loop() -> None:
    async def session() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticker = asyncio.create_task(tick())
        async with Broker() as broker:
            assert broker.running
        ticker.cancel()
        return ticks

    assert asyncio.run(session()) >= 3


def test_a_cancelled_start_leaves_no_broker_behind() -> None:
    before = {child.pid for child in psutil.Process().children()}

    async def session() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), Broker():
                pytest.fail("started within 50 ms")

    asyncio.run(session())
    assert {child.pid for child in psutil.Process().children()} <= before


def test_reset_deletes_every_topic_and_revives(in_process: bool) -> None:
    with Broker(in_process=in_process) as broker:
        for name in ("a", "b"):
            write(broker, name, b"x")
        assert topic_names(broker) == {"a", "b"}
        broker.reset()
        assert topic_names(broker) == set()
        broker.stop()
        broker.reset()
        assert broker.running
        write(broker, "a", b"new")
        assert read(broker, "a", 1) == [b"new"]


def test_a_failed_start_says_why(in_process: bool) -> None:
    broker = Broker(settings={"num.partitions": "many"}, in_process=in_process)
    with pytest.raises(BrokerFailed, match=r"num\.partitions"):
        broker.start()
    assert not broker.running
    assert in_process or "num.partitions" in broker.log


def test_a_start_has_a_deadline() -> None:
    with pytest.raises(BrokerFailed, match=r"was not ready after 0\.001 s"):
        Broker(start_timeout_s=0.001).start()


def test_an_interrupted_start_leaves_nothing(
    in_process: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = {child.pid for child in psutil.Process().children()}
    threads = threading.active_count()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Broker, "_open_entrance", interrupted)  # the broker runs already
    with pytest.raises(KeyboardInterrupt), Broker(in_process=in_process):
        pytest.fail("started")
    assert {child.pid for child in psutil.Process().children()} <= before
    assert threading.active_count() <= threads
    assert list(tmp_path.iterdir()) == []


def test_a_broker_that_ended_on_its_own_is_noticed() -> None:
    broker = Broker()
    broker.start()
    crash(broker)
    with pytest.raises(BrokerFailed, match="ended with exit code -9"):
        broker.close()


def test_a_broker_that_ended_on_its_own_can_be_started_again() -> None:
    with Broker() as broker:
        port = broker.port
        crash(broker)
        broker.start()
        assert broker.running
        assert broker.port == port


def test_settings_of_the_environment_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_NUM_PARTITIONS", "7")
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "7")
    with Broker() as broker:
        write(broker, "orders", b"x")
        assert partition_count(broker, "orders") == 1


@pytest.mark.parametrize("fork", [False, True], ids=["plain", "with_a_forked_child"])
def test_the_child_dies_with_a_killed_parent(fork: bool, tmp_path: Path) -> None:
    code = (
        "import os, sys, time\nfrom odradek.testing import Broker\n"
        "broker = Broker()\nbroker.start()\n"
        f"forked = os.fork() if {fork} else None\n"
        "if forked == 0: time.sleep(60)\n"
        "print(broker.pid, forked or 0, flush=True)\ntime.sleep(60)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # nobody is left to clean up
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        pid, forked = map(int, parent.stdout.readline().split())
        broker = psutil.Process(pid)
        parent.kill()
        parent.wait(30)
        try:
            psutil.wait_procs([broker], timeout=30)
            assert not broker.is_running() or broker.status() == psutil.STATUS_ZOMBIE
        finally:
            if forked:
                os.kill(forked, signal.SIGKILL)


def test_a_partition_that_does_not_exist_has_no_leader() -> None:
    with Broker(in_process=True) as broker:
        with pytest.raises(BrokerFailed, match="there is no topic nosuch; there is none at all"):
            broker.leader("nosuch")
        write(broker, "orders", b"one")
        assert broker.leader("orders") == broker.broker_id
        with pytest.raises(BrokerFailed, match="topic orders has no partition 7, but 1 from 0 on"):
            broker.leader("orders", 7)
