"""A copy's progress and marks at a real broker, without Spark."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka import KafkaProducer

from odradek.pipeline.copy_partition import _abandon, _producer
from odradek.pipeline.copy_progress import (
    Progress,
    ProgressStore,
    check_owner,
    check_room,
    written_lately,
    written_since,
)
from odradek.pipeline.copy_task import (
    CopyTask,
    Lane,
    Lease,
    Record,
    RecordWriter,
)
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.placing import Route
from tests.pipeline.copies import Stored
from tests.support.brokers import NewTopicName, StartServer
from tests.wire.servers import Server

pytestmark = pytest.mark.wire

BEGINS = {0: 0, 1: 0}


@pytest.fixture
def store(server: Server) -> Iterator[ProgressStore]:
    """The broker, as a copy sees its target."""
    store = ProgressStore(server.bootstrap_servers)
    yield store
    store.close()


def records(count: int, partition: int) -> list[Record]:
    return [
        Record("t", partition, n * 2, 1000 + n, b"k%d" % (n % 7), b"v" * 100, [("h", b"%d" % n)])
        for n in range(count)
    ]


@contextmanager
def writing(task: CopyTask, lease: Lease | None = None) -> Iterator[RecordWriter]:
    producer = _producer(task, lease)
    try:
        yield RecordWriter(task.lanes, producer, lease=lease)
    finally:
        _abandon(producer)


def task_of(server: Server, lane: Lane) -> CopyTask:
    return CopyTask(server.bootstrap_servers, {}, {"t": lane}, "owner")


def test_progress_comes_back_as_it_was(store: ProgressStore, new_topic: NewTopicName) -> None:
    route = Route("t", new_topic("target", partitions=2), 2, keep_partitions=False)
    assert store.load(route) is None
    progress = Progress("asked", "me", {0: 5, 1: 7}, {0: 1, 1: 2, 2: 3, 30: 1 << 40}, False, "id")
    store.save(route, progress)
    assert store.load(route) == progress
    check_owner(store, route, "me")
    with pytest.raises(PipelineError, match="another job has begun to copy"):
        check_owner(store, route, "you")
    wider = Route("t", route.target_topic, 3, keep_partitions=False)
    loaded = store.load(wider)
    assert loaded is not None
    assert loaded.begins == {0: 5, 1: 7, 2: 0}


def test_commits_of_others_are_no_progress(store: ProgressStore, new_topic: NewTopicName) -> None:
    route = Route("t", new_topic("target", partitions=2), 2, keep_partitions=False)
    store.commit(route.group, {route.target_topic: {0: 1}})
    with pytest.raises(PipelineError, match="no progress of this job"):
        store.load(route)


def test_a_copy_whose_progress_would_not_fit_is_refused(
    store: ProgressStore, new_topic: NewTopicName
) -> None:
    def ends(sources: int) -> dict[int, int]:
        return dict.fromkeys(range(sources), 10**9)

    def save(sources: int) -> None:
        store.save(route, Progress("a" * 16, "o" * 16, BEGINS, ends(sources)))

    route = Route("t", new_topic("target", partitions=2), 2, keep_partitions=False)
    fits = 0
    with pytest.raises(PipelineError, match=r"2 partitions, too few .* give it at least 3"):
        for fits in range(400, 600):
            check_room(route, ends(fits + 1))
    save(fits)
    loaded = store.load(route)
    assert loaded is not None
    assert loaded.done == ends(fits)
    with pytest.raises(PipelineError, match="takes no offset"):
        save(fits + 1)
    check_room(Route("t", "u", 3, keep_partitions=False), ends(fits + 1))
    check_room(Route("t", "u", 9, keep_partitions=False), ends(1))


def test_a_broken_copy_is_finished_by_its_marks(
    store: ProgressStore, server: Server, new_topic: NewTopicName
) -> None:
    route = Route("t", new_topic("target", partitions=2), 2, keep_partitions=False)
    servers = server.bootstrap_servers
    everything = [*records(60, 0), *records(40, 1)]
    with writing(task_of(server, Lane(route, 1 << 20))) as writer:
        for record in everything[:45]:
            writer.write(record)
        writer.flush()
        for record in everything[45:75]:
            writer.write(record)  # never sent: the round has no end
    other = KafkaProducer(bootstrap_servers=servers)
    for n in range(50):
        other.send(route.target_topic, b"of others", headers=[("odradek.source", b"x/0/%d" % n)])
    other.close()
    written = written_since(store, route, BEGINS, time.monotonic())
    assert max(written.values()) == 88
    assert written_lately(store, route) == written
    with writing(task_of(server, Lane(route, 1 << 20, written))) as writer:
        for record in everything:
            writer.write(record)
        writer.flush()
        assert (writer.tallies["t", 0].skipped, writer.tallies["t", 1].skipped) == (45, 0)
    copied = Stored(servers, route.target_topic).by_source()
    assert sorted(offset for _, offset, _ in copied["t", 0]) == [r.offset for r in everything[:60]]
    assert sorted(offset for _, offset, _ in copied["t", 1]) == [r.offset for r in everything[60:]]


@pytest.mark.timeout(240)  # Kafka takes its time to start
def test_a_broker_that_is_killed_delays_a_copy(start_server: StartServer) -> None:
    server = start_server()

    def restart() -> None:
        server.kill()
        server.start()

    servers = server.bootstrap_servers
    store = ProgressStore(servers)
    store.create_topic("u", 2, {"retention.ms": "-1"})  # its records are of 1970
    route = Route("t", "u", 2, keep_partitions=False)
    store.save(route, Progress("asked", "owner", BEGINS))
    store.close()
    task = task_of(server, Lane(route, 1 << 20))
    lease = Lease(task)
    everything = [Record("t", 0, n, n, b"k%d" % (n % 7), b"v" * 4000, []) for n in range(3000)]
    restarts: list[threading.Thread] = []
    with writing(task, lease) as writer:
        for record in everything:
            if record.offset in (500, 1500, 2500):
                for thread in restarts:
                    thread.join()  # one broker is started at a time
                restarts.append(threading.Thread(target=restart))
                restarts[-1].start()
            writer.write(record)
        writer.flush()
        for thread in restarts:
            thread.join()
    lease.close()
    copied = Stored(servers, "u").by_source()["t", 0]
    assert sorted(offset for _, offset, _ in copied) == list(range(3000))
    for place in (0, 1):
        offsets = [offset for where, offset, _ in copied if where == place]
        assert offsets == sorted(offsets)


def test_records_that_lie_elsewhere_are_not_taken_for_progress(
    store: ProgressStore, server: Server, new_topic: NewTopicName
) -> None:
    route = Route("t", new_topic("target", partitions=2), 2, keep_partitions=False)
    with writing(task_of(server, Lane(route, 1 << 20))) as writer:
        for record in records(9, 0):
            writer.write(record)
        writer.flush()
    kept = Route("t", route.target_topic, 2, keep_partitions=True)
    with pytest.raises(PipelineError, match="would be placed in another partition now"):
        written_lately(store, kept)
    named = Route("t", route.target_topic, 2, keep_partitions=True, name="another")
    assert written_lately(store, named) == {}


def test_a_task_of_a_replaced_job_stops(
    store: ProgressStore, server: Server, new_topic: NewTopicName
) -> None:
    route = Route("t", new_topic("target", partitions=2), 2, keep_partitions=False)
    now = [0.0]
    lease = Lease(task_of(server, Lane(route, 1 << 20)), clock=lambda: now[0])
    store.save(route, Progress("asked", "before", BEGINS))
    with pytest.raises(PipelineError, match="another job has begun"):
        lease.check({"t"})  # a task believes nobody's clock but its own
    assert not lease.is_held
    store.save(route, Progress("asked", "owner", BEGINS))
    lease.check({"t"})
    store.save(route, Progress("asked", "another", BEGINS))
    now[0] = 0.4
    lease.check({"t"})
    now[0] = 0.9
    assert lease.is_held
    with pytest.raises(PipelineError, match="another job has begun"):
        lease.check({"t"})
    now[0] = 1.1
    assert not lease.is_held
    lease.close()
