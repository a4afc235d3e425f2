"""Several log directories: where partitions go, how they are moved, what a failed one costs."""

import asyncio
import functools
import shutil
from collections import Counter
from pathlib import Path

import pytest

from odradek.broker.core.log_uses import Use
from odradek.broker.handlers.k34_alter_replica_log_dirs import ALTERED_AT_ONCE
from odradek.broker.partitions.moves import SLICE_BYTES
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from odradek.storage.directory.moving import MARKER, future_directory
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import batch_of

from ..faulty_files import FULL, FaultyFiles
from ..requests import change_configs, delete_topics
from ..running import RunningBroker
from .log_dirs import (
    BROKER,
    DELETE,
    GROUPS,
    NAMES,
    SET,
    HeldOffload,
    alter,
    begun,
    broker_at,
    committed,
    dir_of,
    directories,
    held_at_the_mark,
    log_of,
    offset_of,
    others,
    paths_of,
    values,
)

# Under load a writer without an end outruns the mover for long.
WRITES_WHILE_MOVED = 100


def test_a_new_partition_goes_where_the_fewest_are(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", 7)
            counts = [len(names) for names in directories(tmp_path).values()]
            assert counts == [3, 2, 2]
            assert await alter(client, paths_of(tmp_path)[2], ("new", 0), ("new", 1)) == [3, 3]
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            assert len(broker.node.replicas.partitions) == 7
            for name in NAMES:
                assert (tmp_path / name / "meta.properties").exists()
            await client.create_topic("u", 2)
            assert [dir_of(broker, "u", p) for p in (0, 1)] == ["b", "c"]
        assert all((tmp_path / name / ".kafka_cleanshutdown").exists() for name in NAMES)

    asyncio.run(main())


def test_a_directory_that_was_wanted_before_there_was_a_partition(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await alter(client, paths_of(tmp_path)[2], ("t", 1)) == [code]
            await client.create_topic("t", 2)
            assert [dir_of(broker, "t", p) for p in (0, 1)] == ["a", "c"]
            assert not broker.node.replicas.logs.preferred_dirs

    asyncio.run(main())


def test_what_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            assert await alter(client, "/absent") == [ErrorCode.LOG_DIR_NOT_FOUND]
            assert await alter(client, "a") == [ErrorCode.LOG_DIR_NOT_FOUND]
            long = "x" * 240
            path = others(broker)[0]
            assert await alter(client, path, (long, 0)) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
            assert await alter(client, str(tmp_path / dir_of(broker))) == [0]
            assert not broker.node.replicas.log_dirs.find_future("t", 0)

    asyncio.run(main())


def test_many_moves_are_begun_in_many_turns_of_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client, turns, altered_in = await broker.client(), 0, list[int]()
            moves = broker.node.replicas.moves
            begin = moves.alter

            def count(topic: str, partition: int, path: str) -> None:
                altered_in.append(turns)
                begin(topic, partition, path)

            def tick() -> None:
                nonlocal turns
                turns += 1
                if len(altered_in) < 100:
                    asyncio.get_running_loop().call_soon(tick)

            tick()
            monkeypatch.setattr(moves, "alter", count)
            asked = [("absent", number) for number in range(100)]
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await alter(client, paths_of(tmp_path)[0], *asked) == [code] * 100
            assert len(altered_in) == 100
            assert max(Counter(altered_in).values()) <= ALTERED_AT_ONCE

    asyncio.run(main())


def is_in(broker: RunningBroker, path: str) -> bool:
    return dir_of(broker) == Path(path).name


@pytest.mark.slow
def test_a_replica_is_moved_while_it_is_written_to(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client, mover = await broker.client(), await broker.client()
            await client.create_topic("t")
            written = 0
            for _ in range(3):
                path = others(broker)[0]
                for _ in range(20):
                    await client.append("t", batch_of(b"%05d" % written * 500))
                    written += 1
                assert await alter(mover, path) == [0]
                before = written
                while not is_in(broker, path) and written < before + WRITES_WHILE_MOVED:
                    await client.append("t", batch_of(b"%05d" % written * 500))
                    written += 1
                await until(functools.partial(is_in, broker, path))
                assert await values(client) == [b"%05d" % n * 500 for n in range(written)]
            await until(lambda: sum(map(len, directories(tmp_path).values())) == 1)
            await until(lambda: not (Path(log_of(broker).directory) / MARKER).exists())
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            assert await values(client) == [b"%05d" % n * 500 for n in range(written)]

    asyncio.run(main())


def test_what_batches_do_not_tell_is_moved_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            batch = batch_of(b"x", b"y", b"z", producer_id=7, producer_epoch=0, base_sequence=0)
            await client.append("t", bytearray(batch))
            await client.append("t", batch_of(b"u"))
            before = log_of(broker)
            before.advance_log_start(1)  # within a batch
            before.assign_leader_epoch(5)
            epochs = before.epochs.entries()
            await alter(client, others(broker)[0])
            await until(lambda: log_of(broker) is not before)
            after = log_of(broker)
            assert (after.log_start_offset, after.high_watermark, after.log_end_offset) == (1, 4, 4)
            assert after.epochs.entries() == epochs
            again = await client.produce("t", bytearray(batch))
            assert (again.error_code, again.base_offset) == (0, 0), "a duplicate is known"
            directory = Path(after.directory)
        async with broker_at(tmp_path) as broker:
            assert Path(log_of(broker).directory) == directory
            assert log_of(broker).log_start_offset == 1

    asyncio.run(main())


async def shown(client: Client) -> dict[str, tuple[bool, int]]:
    """Of each directory's replica whether it is a future one, and its lag."""
    results = (await client.ask(DescribeLogDirsRequest(topics=None), 4)).results
    return {
        Path(result.log_dir).name: (p.is_future_key, p.offset_lag)
        for result in results
        for topic in result.topics
        for p in topic.partitions
    }


def test_a_move_is_seen_and_can_be_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            let_go = await begun(broker, client)
            assert await shown(client) == {"a": (False, 0), "b": (True, 30)}
            partitions = broker.node.replicas.partitions
            served = partitions.pop(("t", 0))  # as before the controller's first word
            assert await shown(client) == {"a": (False, -1), "b": (True, -1)}
            partitions["t", 0] = served
            assert await alter(client, str(tmp_path / dir_of(broker))) == [0]
            let_go.set()
            await until(lambda: not broker.node.replicas.uses.having(Use.MOVES))
            await until(lambda: directories(tmp_path) == {"a": ["t-0"], "b": [], "c": []})
            assert len(await values(client)) == 30

    asyncio.run(main())


@pytest.mark.slow
def test_moves_are_no_faster_than_they_may_be(tmp_path: Path) -> None:
    rate = "replica.alter.log.dirs.io.max.bytes.per.second"

    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.ask(change_configs(BROKER, "", (rate, SET, "5000")), 1)
            for number in range(40):
                await client.append("t", batch_of(b"%d" % number + b"x" * 19_000))
            assert await alter(client, str(tmp_path / "b")) == [0]

            def copied() -> int:
                found = broker.node.replicas.log_dirs.find_future("t", 0)
                return -1 if found is None else found[1].size_bytes

            await until(lambda: copied() > 0)  # a slice goes, and counts for eleven seconds
            first = copied()
            assert first <= SLICE_BYTES
            broker.clock.moved_ms += 12_000
            await until(lambda: copied() > first)
            assert copied() <= 3 * SLICE_BYTES
            assert dir_of(broker) == "a"
            await client.ask(change_configs(BROKER, "", (rate, DELETE, None)), 1)
            await until(lambda: dir_of(broker) == "b")
            assert len(await values(client)) == 40

    asyncio.run(main())


def test_a_move_that_is_sent_elsewhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            let_go = await begun(broker, client)
            assert await alter(client, others(broker)[1]) == [0]
            let_go.set()
            await until(lambda: directories(tmp_path) == {"a": [], "b": [], "c": ["t-0"]})
            assert len(await values(client)) == 30

    asyncio.run(main())


def test_a_topic_that_is_deleted_while_it_is_moved(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            let_go = await begun(broker, client)
            await client.ask(delete_topics(6, "t"), 6)
            let_go.set()
            await until(lambda: directories(tmp_path) == {"a": [], "b": [], "c": []})
            await client.create_topic("t")
            assert await client.append("t", batch_of(b"x")) == 0

    asyncio.run(main())


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_move_that_ends_just_before_it_is_marked(tmp_path: Path, is_deleted: bool) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            let_go = await held_at_the_mark(broker, client)
            if is_deleted:
                await client.ask(delete_topics(6, "t"), 6)
            else:
                assert await alter(client, str(tmp_path / dir_of(broker))) == [0]
            let_go.set()
            await until(lambda: not broker.node.replicas.uses.having(Use.MOVES))
            assert not broker.node.replicas.is_offline
            assert len(broker.node.replicas.log_dirs.online) == 3

    asyncio.run(main())


@pytest.mark.slow
def test_a_move_goes_on_after_a_crash(tmp_path: Path) -> None:
    async def main() -> None:
        image = tmp_path / "image"
        async with broker_at(tmp_path) as broker:
            let_go = await begun(broker, await broker.client())
            for name in NAMES:
                # A file that is being written may be gone in a moment; a crash leaves it or not.
                shutil.copytree(
                    tmp_path / name, image / name, ignore=shutil.ignore_patterns("*.tmp")
                )
            let_go.set()
        async with broker_at(image) as broker:
            assert dir_of(broker) == "a"
            await until(lambda: dir_of(broker) == "b")
            assert len(await values(await broker.client())) == 30

    asyncio.run(main())


def test_a_copy_that_no_longer_fits_is_begun_anew(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            let_go = await begun(broker, client)
            log_of(broker).truncate(20)
            let_go.set()
            await until(lambda: dir_of(broker) == "b")
            assert len(await values(client)) == 20

    asyncio.run(main())


def test_a_replica_is_moved_away_from_a_full_directory(tmp_path: Path) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with broker_at(tmp_path, files) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.append("t", batch_of(b"x"))
            assert dir_of(broker) == "a"
            files.where, files.faults = "/a/recovery-point-offset-checkpoint", {"write": FULL}
            assert await alter(client, str(tmp_path / "b")) == [0]
            await until(lambda: dir_of(broker) == "b")
            assert await values(client) == [b"x"]
            files.faults = {}

    asyncio.run(main())


@pytest.mark.slow
def test_a_copy_of_what_was_cut_meanwhile_is_begun_anew(tmp_path: Path) -> None:
    """Other records came in its place, as many: the ends of both logs don't tell."""

    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            let_go = await held_at_the_mark(broker, client)
            before = await values(client)
            log_of(broker).truncate(len(before) - 1)
            await client.append("t", batch_of(b"other"))
            let_go.set()
            await until(lambda: dir_of(broker) == "b")
            assert await values(client) == [*before[:-1], b"other"]

    asyncio.run(main())


@pytest.mark.parametrize("count", [0, 40])
def test_what_was_read_of_a_log_that_is_cut_is_not_copied(tmp_path: Path, count: int) -> None:
    """It is short, or begins within another batch."""

    async def main() -> None:
        async with broker_at(tmp_path, settings={"log.segment.bytes": "10000000"}) as broker:
            client = await broker.client()
            let_go = await begun(broker, client, 100)
            held = broker.node.runtime.offload
            assert isinstance(held, HeldOffload)
            await until(lambda: held.is_holding)
            if count:
                held.is_holding = False
                let_go.set()
                let_go.clear()
                await until(lambda: held.is_holding, "the second slice is")
            to = Path(others(broker)[0]).name
            log_of(broker).truncate(0)
            for _ in range(count):
                await client.append("t", batch_of(b"w" * 11_000))
            let_go.set()
            await until(lambda: dir_of(broker) == to)
            assert await values(client) == [b"w" * 11_000] * count
            assert broker._failed is not None
            assert not broker._failed.done()

    asyncio.run(main())


def test_what_is_unsafe_of_a_cut_log_is_so_of_its_copy(tmp_path: Path) -> None:
    """The copy may have been cut with it after it was made durable."""

    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client, replicas = await broker.client(), broker.node.replicas
            let_go = await begun(broker, client)
            replicas.uses.begin(log_of(broker), Use.CUT)
            let_go.set()
            await until(lambda: dir_of(broker) == "b")
            assert replicas.uses.having(Use.CUT) == [log_of(broker)]
            await replicas.make_cuts_safe([replicas.partitions["t", 0]])
            assert not replicas.uses.having(Use.CUT)

    asyncio.run(main())


def test_a_partition_of_group_offsets_is_moved(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_at(tmp_path, settings={"offsets.topic.num.partitions": "1"}) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.ask(FindCoordinatorRequest(key="g", coordinator_keys=["g"]), 4)
            await until(lambda: not broker.node.groups.is_loading)
            await committed(client, 1)
            before = log_of(broker, GROUPS)
            assert await alter(client, others(broker, GROUPS)[0], (GROUPS, 0)) == [0]
            await until(lambda: log_of(broker, GROUPS) is not before)
            await committed(client, 2)
            directory = log_of(broker, GROUPS).directory
        async with broker_at(tmp_path, settings={"offsets.topic.num.partitions": "1"}) as broker:
            assert log_of(broker, GROUPS).directory == directory
            await until(lambda: not broker.node.groups.is_loading)
            assert await offset_of(await broker.client()) == 2

    asyncio.run(main())


def test_a_copy_of_another_topic_is_set_aside(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            await (await broker.client()).create_topic("t")
        future = tmp_path / "b" / future_directory("t", 0, bytes(16))
        shutil.copytree(tmp_path / "a/t-0", future)
        (future / "partition.metadata").write_text(f"version: 0\ntopic_id: {'x' * 21}w")
        async with broker_at(tmp_path) as broker:
            await until(lambda: any("-stray" in name for name in directories(tmp_path)["b"]))
            client = await broker.client()
            assert await alter(client, str(tmp_path / "b")) == [0]
            await until(lambda: dir_of(broker) == "b")

    asyncio.run(main())


@pytest.mark.slow
def test_a_replica_may_come_back_before_the_old_log_is_unlinked(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_at(tmp_path, settings={"log.segment.delete.delay.ms": "60000"}) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.append("t", batch_of(b"x"))
            for name in ("b", "a", "b"):
                await until(lambda: not broker.node.replicas.uses.having(Use.MOVES))
                assert await alter(client, str(tmp_path / name)) == [0]
                await until(lambda name=name: dir_of(broker) == name)  # type: ignore[misc]
            assert await values(client) == [b"x"]

    asyncio.run(main())
