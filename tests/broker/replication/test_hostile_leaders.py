"""Leaders that answer rubbish, stall, hang up, or say what can't be: followers wait and go on.

Broker 2 follows two partitions of a fake leader (9) and one of an honest broker (1). Whatever 9
does, what is already there stays, and the honest one's records keep coming.
"""

import asyncio
import logging
import random
import shutil
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from odradek.protocol.errors import ErrorCode
from odradek.protocol.framing import FRAME_SIZE
from odradek.protocol.messages.k01_fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.protocol.primitives import INT64_MAX
from odradek.protocol.records import set_offset_and_epoch
from odradek.protocol.schema import Message
from odradek.storage.log.checkpoint import OFFSET_MAX
from tests.seeds import Repeats, repeated, seeds
from tests.sim.loop import SimLoop, simulate
from tests.support.awaiting import until
from tests.support.messages import batch_of

from .cluster import TOPIC, TOPIC_ID, Cluster, Replicating, replicating, state_of
from .fake_leader import Answer, FakeLeader

FAKE: Final = 9
EPOCH: Final = 4
HONEST: Final = (TOPIC, 0)
HERS: Final = (TOPIC, 1)
BESIDE: Final = (TOPIC, 2)
WAIT_S: Final = 0.03
BACKOFF_S: Final = 0.005
SETTINGS: Final = {
    "replica.fetch.backoff.ms": f"{BACKOFF_S * 1000:.0f}",
    "replica.fetch.wait.max.ms": "30",
    "replica.socket.timeout.ms": "300",
}

pytestmark = pytest.mark.wire


def batch(offset: int, value: bytes = b"v", *, epoch: int = EPOCH) -> bytes:
    """One record, as a leader would have it."""
    made = batch_of(value)
    set_offset_and_epoch(made, offset, epoch)
    return bytes(made)


def data_of(records: bytes = b"", *, index: int = 1, **more: Any) -> PartitionData:
    named = {"high_watermark": 0, "last_stable_offset": 0, "log_start_offset": 0, **more}
    return PartitionData(partition_index=index, records=records, **named)


def fetched(*partitions: PartitionData, **more: Any) -> FetchResponse:
    topic = FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=list(partitions))
    return FetchResponse(responses=[topic], **more)


def offsets(offset: int, error: int = 0) -> ListOffsetsResponse:
    """To any question about partition 1."""
    data = ListOffsetsPartitionResponse(
        partition_index=1, error_code=error, timestamp=-1, offset=offset, leader_epoch=EPOCH
    )
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[data])])


def asked_at(request: Message, index: int) -> int | None:
    """The offset at which a Fetch without a session asks for a partition."""
    assert isinstance(request, FetchRequest)
    found = [p.fetch_offset for t in request.topics for p in t.partitions if p.partition == index]
    return found[0] if found else None


class World:
    """What a test sees."""

    def __init__(self, cluster: Cluster, fake: FakeLeader) -> None:
        self.fake = fake
        self.honest = cluster[1]
        self.follower: Replicating = cluster[2]
        self.log = self.follower.partition(HERS).log

    async def goes_on(self) -> None:
        """The honest leader's records arrive."""
        client = await self.honest.client()
        result = await client.produce(TOPIC, batch_of(b"honest"), acks=-1)
        assert result.error_code == 0
        assert not self.follower.failures

    async def asked(self, count: int) -> None:
        """So many more questions have come."""
        wanted = len(self.fake.asked) + count
        await until(lambda: len(self.fake.asked) >= wanted or self._is_fenced())

    def _is_fenced(self) -> bool:
        """Whether she has told this broker to wait for its controller."""
        fetchers = self.follower.replicator._fetchers
        return not any(f.followed for (leader, _), (f, _) in fetchers.items() if leader == FAKE)


@asynccontextmanager
async def world(directory: Path, answer: Answer, **settings: str) -> AsyncIterator[World]:
    """The partitions of the fake leader hold one record each, which is committed."""
    named = {**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
    fake = FakeLeader(FAKE, answer)
    await fake.start()
    try:
        async with replicating(directory, 2, named) as cluster:
            follower = cluster[2]
            theirs = [
                state_of(2, EPOCH - 1, [2], [2, FAKE], partition=index, partition_epoch=0)
                for index in (1, 2)
            ]
            await follower.take(*theirs)
            client = await follower.client()
            for index in (1, 2):
                await client.append(TOPIC, batch_of(b"first"), partition=index, acks=1)
            live = [cluster[1].info, follower.info, fake.info]
            follower.metadata.update_brokers(1, live)
            await cluster[1].take(state_of(1, 0, [1, 2], [1, 2]))
            await follower.take(state_of(1, 0, [1, 2], [1, 2]))
            assert follower.partition(HERS).log.high_watermark == 1
            await follower.take(
                *(state_of(FAKE, EPOCH, [FAKE, 2], [2, FAKE], partition=i) for i in (1, 2))
            )
            yield World(cluster, fake)
    finally:
        await fake.stop()


def on_world(
    answer: Answer, **settings: str
) -> Callable[[Callable[[World], Coroutine[Any, Any, None]]], Callable[[Path], None]]:
    """Make `async def test(world)` a test."""

    def decorate(test: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
        def run(tmp_path: Path) -> None:
            async def main() -> None:
                async with world(tmp_path, answer, **settings) as made:
                    await test(made)

            asyncio.run(main())

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


async def late(answer: Message) -> Message:
    """As an honest leader would with nothing to tell."""
    await asyncio.sleep(WAIT_S)
    return answer


REFUSED: Final[dict[str, PartitionData]] = {
    "a wrong checksum": data_of(batch(1)[:-1] + b"?"),
    "an offset that is there": data_of(batch(0)),
    "offsets left out at the end": data_of(batch(7)),
    "an offset that can't be": data_of(batch(INT64_MAX)),
    "offsets left out, then not": data_of(batch(3) + batch(2), high_watermark=9),
    "an earlier epoch": data_of(batch(1, epoch=EPOCH - 2)),
    "a later epoch": data_of(batch(1, epoch=EPOCH + 1)),
    "a format of old": data_of(batch(1)[:16] + b"\1" + batch(1)[17:]),
    "a length that can't be": data_of(batch(1)[:8] + b"\0\0\0\1" + batch(1)[12:]),
    "a torn batch": data_of(batch(1)[:-1]),
    "rubbish": data_of(b"rubbish" * 100),
    "nowhere to cut": data_of(diverging_epoch=EpochEndOffset(epoch=3, end_offset=-5)),
    "a cut that changes nothing": data_of(
        diverging_epoch=EpochEndOffset(epoch=EPOCH - 1, end_offset=1)
    ),
    "an error without a name": data_of(error_code=12345),
    "a damaged range": data_of(error_code=ErrorCode.CORRUPT_MESSAGE),
    "a failed disk": data_of(error_code=ErrorCode.KAFKA_STORAGE_ERROR),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_can_not_be_is_not_taken(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is asked again after a pause, the partition beside it is served; one line is logged.

    No leader is late, however long the machine stands still: that would make lines of its own.
    """

    async def answer(request: Message) -> Message:
        if isinstance(request, ListOffsetsRequest):
            return offsets(-1, ErrorCode.UNKNOWN_SERVER_ERROR)
        beside = asked_at(request, 2)
        parts = [data_of(batch(1), index=2)] if beside == 1 else []
        if asked_at(request, 1) is not None:
            return fetched(REFUSED[what], *parts)
        return fetched(*parts) if parts else await late(fetched())

    async def main() -> None:
        async with world(tmp_path, answer, replica_socket_timeout_ms="30000") as made:
            beside = made.follower.partition(BESIDE).log
            await until(lambda: beside.log_end_offset == 2)
            await made.asked(10)
            assert (made.log.log_end_offset, made.log.high_watermark) == (1, 1)
            assert made.log.epochs.latest == EPOCH - 1
            await made.goes_on()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    lines = [r for r in caplog.records if r.name.startswith("odradek.broker.replication")]
    assert 1 <= len(lines) <= 2, [line.getMessage() for line in lines]


@on_world(lambda _: fetched(data_of(batch(1) + batch(2)[:-1] + b"?", high_watermark=9)))
async def test_what_comes_before_a_bad_batch_is_kept(made: World) -> None:
    await until(lambda: made.log.log_end_offset == 2)
    await made.asked(5)
    assert (made.log.log_end_offset, made.log.high_watermark) == (2, 1)
    await made.goes_on()


@on_world(
    lambda _: fetched(
        data_of(batch(1), index=7),
        data_of(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, index=-1),
        data_of(batch(1)),
        data_of(batch(1)),
        session_id=-3,
    )
)
async def test_partitions_that_were_not_asked_for_are_passed_over(made: World) -> None:
    """And one that is answered twice is taken once."""
    await until(lambda: made.log.log_end_offset == 2)
    await made.asked(5)
    assert made.log.log_end_offset == 2
    await made.goes_on()


@pytest.mark.parametrize("offset", [-1, OFFSET_MAX + 1, INT64_MAX])
def test_a_range_that_the_leader_does_not_have_either(tmp_path: Path, offset: int) -> None:
    async def main() -> None:
        async with world(
            tmp_path,
            lambda r: (
                offsets(offset)
                if isinstance(r, ListOffsetsRequest)
                else fetched(data_of(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
            ),
        ) as made:
            await made.asked(10)
            assert (made.log.log_start_offset, made.log.log_end_offset) == (0, 1)
            await made.goes_on()

    asyncio.run(main())


def test_offsets_come_to_an_end(tmp_path: Path) -> None:
    """The last batch would leave no offset to go on with: it is not taken, the others are."""

    async def answer(request: Message) -> Message:
        if isinstance(request, ListOffsetsRequest):
            return offsets(OFFSET_MAX)
        at = asked_at(request, 1)
        if at is None:
            return await late(fetched())
        if at < OFFSET_MAX:
            return fetched(data_of(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        return fetched(data_of(batch(at), high_watermark=at))

    async def main() -> None:
        async with world(tmp_path, answer) as made:
            await until(lambda: made.log.log_end_offset == OFFSET_MAX + 1)
            await made.asked(10)
            assert made.log.log_end_offset == OFFSET_MAX + 1
            await made.goes_on()

    asyncio.run(main())


def test_below_the_high_watermark_it_is_cut_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The leader was elected uncleanly, or this replica would not be where it is; as in Kafka."""

    async def main() -> None:
        diverging = EpochEndOffset(epoch=EPOCH - 1, end_offset=0)
        async with world(
            tmp_path,
            lambda r: (
                fetched(data_of(diverging_epoch=diverging))
                if asked_at(r, 1)
                else late(fetched(data_of(b"")))
            ),
        ) as made:
            await until(lambda: made.log.log_end_offset == 0)
            await made.goes_on()

    asyncio.run(main())
    assert "high_watermark=1" in caplog.text


def rubbish(_: Message) -> bytes:
    return b"HTTP/1.1 400 Bad Request\r\n\r\n"


async def silence(_: Message) -> None:
    await asyncio.sleep(60)


HANGS: Final[dict[str, Answer]] = {
    "hangs up": lambda _: None,
    "answers no frame": rubbish,
    "answers a huge frame": lambda _: b"\x7f\xff\xff\xff" + b"x" * 100_000,
    "answers a negative frame": lambda _: b"\xff\xff\xff\xff",
    "answers the wrong question": lambda _: b"\0\0\0\x08\x11\x11\x11\x11\0\0\0\0",
    "stops in the middle": lambda _: b"\0\0\x40\0" + b"\0" * 100,
    "refuses": lambda _: FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
    "knows no session": lambda _: FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    "never answers": silence,
    "answers nothing at once": lambda _: FetchResponse(),
}


@pytest.mark.parametrize("how", HANGS)
def test_a_connection_that_goes_wrong(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One line; others are fetched from as before, and so is she once she is well again."""

    async def main() -> None:
        async with world(tmp_path, HANGS[how]) as made:
            for _ in range(3):
                await made.goes_on()
            await until(lambda: "fetch from leader failed leader=9" in caplog.text)
            begin_s = time.monotonic()
            await made.asked(3)
            assert time.monotonic() - begin_s >= 2 * BACKOFF_S, "there is no pause"
            assert caplog.text.count("fetch from leader failed leader=9") == 1
            made.fake.answer = lambda r: (
                fetched(data_of(batch(1))) if asked_at(r, 1) == 1 else late(FetchResponse())
            )
            await until(lambda: made.log.log_end_offset == 2)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())


def follow_mutated_answers(directory: Path, seed: int) -> None:
    """Whatever the bytes: no task dies, and the honest leader is followed.

    The pauses of a follower that has been answered rubbish are passed over: time is simulated.
    """
    rng = random.Random(seed)

    def garble(frame: bytes) -> bytes:
        mutated = bytearray(frame)
        for _ in range(rng.choice((0, 1, 1, 2, 5))):
            position = rng.randrange(8, len(mutated)) if len(mutated) > 8 else 0
            mutated[position] = rng.choice((0, 0xFF, 0x7F, 0x80, rng.randrange(256)))
        if rng.random() < 0.1:
            del mutated[rng.randrange(8, len(mutated)) :]
            mutated[:4] = FRAME_SIZE.pack(len(mutated) - 4)
        return bytes(mutated)

    def answer(request: Message) -> Message:
        if isinstance(request, ListOffsetsRequest):
            return offsets(rng.choice((1, 2, 3, OFFSET_MAX, INT64_MAX - 1, INT64_MAX)))
        parts = []
        for index in (1, 2):
            at = asked_at(request, index)
            if at is None:
                continue
            kind = rng.random()
            if kind < 0.7:
                records = b"".join(batch(at + n, b"x" * rng.randrange(50)) for n in range(3))
                parts.append(data_of(records, index=index, high_watermark=at))
            elif kind < 0.8:
                end = EpochEndOffset(epoch=rng.choice((0, 3, 4, 5)), end_offset=max(1, at - 1))
                parts.append(data_of(index=index, diverging_epoch=end))
            else:
                parts.append(data_of(index=index, error_code=rng.choice((1, 2, 3, 6, 56, 75))))
        return fetched(*parts)

    async def main(loop: SimLoop) -> None:
        async with world(directory, answer) as made:
            made.fake.garble = garble
            for _ in range(3):
                await made.asked(20)
                await made.goes_on()
                made.follower.replicator.roles_changed([HERS, BESIDE])
            assert made.log.log_start_offset <= made.log.high_watermark <= made.log.log_end_offset

    simulate(main, seed)


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_mutated_answers(tmp_path: Path, seed: int) -> None:
    follow_mutated_answers(tmp_path, seed)


@repeated(in_soak=5_000)
def test_mutated_answers_of_many_leaders(
    tmp_path: Path, repeats: Repeats, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "odradek")  # pytest keeps the lines of a test: gigabytes
    for seed in range(repeats.seed, repeats.seed + repeats.count):
        directory = tmp_path / str(seed)
        follow_mutated_answers(directory, seed)
        shutil.rmtree(directory)
