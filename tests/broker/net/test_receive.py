"""Frames out of pieces, and the memory they may take."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.net.receive import SCRATCH_BYTES, FrameBuffer, ReceiveBudget
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.framing import FRAME_SIZE
from tests.support.frames import framed

KIB = 1 << 10
FRAME_BYTES_MAX = 1 << 20


def feed(frames: FrameBuffer, data: bytes) -> list[bytes]:
    """Receive `data` as far as there is room; return the whole frames."""
    got = []
    while data:
        room = frames.room()
        count = min(len(room), len(data))
        assert count, "there is no room"
        room[:count] = data[:count]
        frames.received(count)
        data = data[count:]
        got += take(frames)
        assert frames.settle(0)
        if not frames.make_room():
            assert not data, "there is no room"
    return got


def take(frames: FrameBuffer) -> list[bytes]:
    got = []
    while (frame := frames.next_frame()) is not None:
        with frame:
            got.append(bytes(frame))
        frames.consume()
    return got


@pytest.mark.slow
@given(st.lists(st.binary(max_size=300), max_size=20), st.data())
def test_frames_come_out_as_they_went_in(sent: list[bytes], data: st.DataObject) -> None:
    budget = ReceiveBudget(1 << 20)
    frames = FrameBuffer(budget, FRAME_BYTES_MAX)
    stream = b"".join(map(framed, sent))
    got = []
    while stream:
        count = data.draw(st.integers(1, len(stream)))
        got += feed(frames, stream[:count])
        stream = stream[count:]
    assert got == sent
    assert budget.used_bytes == 0
    assert frames.buffered_bytes == 0


def test_frames_that_may_not_be_taken_yet_are_kept() -> None:
    frames = FrameBuffer(ReceiveBudget(1 << 20), FRAME_BYTES_MAX)
    stream = framed(b"one") + framed(b"two") + framed(b"three")[:5]
    frames.room()[: len(stream)] = stream
    frames.received(len(stream))
    frame = frames.next_frame()
    assert frame is not None
    frame.release()  # it was looked at, but must wait
    assert frames.settle(0)
    assert frames.holds_memory
    frames.room()[:4] = framed(b"three")[5:]
    frames.received(4)
    assert take(frames) == [b"one", b"two", b"three"]


def test_a_large_frame_grows_with_what_arrives() -> None:
    budget = ReceiveBudget(4 << 20)
    frames = FrameBuffer(budget, FRAME_BYTES_MAX)
    large = bytes(range(256)) * 4096
    assert feed(frames, framed(large)[:100]) == []
    assert budget.used_bytes == 100
    assert feed(frames, framed(large)[100 : 300 * KIB]) == []
    assert budget.used_bytes <= 600 * KIB
    assert feed(frames, framed(large)[300 * KIB :]) == [large]
    assert budget.used_bytes == 0


@pytest.mark.parametrize("size_bytes", [-1, -(1 << 31), FRAME_BYTES_MAX + 1, (1 << 31) - 1])
def test_impossible_sizes(size_bytes: int) -> None:
    frames = FrameBuffer(ReceiveBudget(1 << 20), FRAME_BYTES_MAX)
    frames.room()[:4] = FRAME_SIZE.pack(size_bytes)
    frames.received(4)
    with pytest.raises(MalformedMessage):
        frames.next_frame()


def send(frames: FrameBuffer, data: bytes) -> int:
    """Receive `data` until the frame is whole or has to wait; return the number of bytes."""
    sent = 0
    while sent < len(data) and frames.make_room():
        room = frames.room()
        count = min(len(room), len(data) - sent)
        room[:count] = data[sent : sent + count]
        frames.received(count)
        take(frames)
        assert frames.settle(0)
        sent += count
    return sent


LARGE = framed(bytes(FRAME_BYTES_MAX))


def test_a_thousand_impossible_sizes_reserve_nothing() -> None:
    random, budget = Random(1), ReceiveBudget(1 << 20)
    for _ in range(1000):
        size_bytes = random.choice(
            (random.randrange(-(1 << 31), 0), random.randrange(FRAME_BYTES_MAX + 1, 1 << 31))
        )
        frames = FrameBuffer(budget, FRAME_BYTES_MAX)
        frames.room()[:4] = FRAME_SIZE.pack(size_bytes)
        frames.received(4)
        with pytest.raises(MalformedMessage):
            frames.next_frame()
        frames.close()
    assert budget.used_bytes == 0


def test_above_the_budget_large_frames_wait_and_small_ones_pass() -> None:
    budget = ReceiveBudget(2 << 20)
    first, second, third, small = (FrameBuffer(budget, FRAME_BYTES_MAX) for _ in range(4))
    assert send(first, LARGE[:-1]) == len(LARGE) - 1
    assert send(second, LARGE[:-1]) == len(LARGE) - 1
    assert not first.has_turn
    assert second.has_turn, "it exceeds the limit"
    sent = send(third, LARGE)
    assert sent < len(LARGE)
    assert len(third.room()) == 0
    assert budget.used_bytes <= (2 << 20) + len(LARGE)
    assert feed(small, framed(b"small")[:5]) == []
    assert feed(small, framed(b"small")[5:]) == [b"small"]
    assert send(second, LARGE[-1:]) == 1
    assert sent + send(third, LARGE[sent:]) == len(LARGE)
    first.close()
    assert budget.used_bytes == 0


def test_frames_that_are_too_large_together_do_not_wait_for_each_other() -> None:
    """All have begun, and none could end if each waited for the others."""
    budget = ReceiveBudget(2 << 20)
    begun = {FrameBuffer(budget, FRAME_BYTES_MAX): 0 for _ in range(8)}
    for size_bytes in (200 * KIB, len(LARGE)):
        for frames, sent in begun.items():
            begun[frames] += send(frames, LARGE[sent:size_bytes])
            assert budget.used_bytes <= (2 << 20) + len(LARGE)
    for frames, sent in begun.items():
        begun[frames] += send(frames, LARGE[sent:])
    assert set(begun.values()) == {len(LARGE)}
    assert budget.used_bytes == 0


def test_the_turn_ends_with_its_frame() -> None:
    budget = ReceiveBudget(512 * KIB)
    frames, other = (FrameBuffer(budget, FRAME_BYTES_MAX) for _ in range(2))
    assert send(frames, LARGE[:-1]) == len(LARGE) - 1
    assert frames.has_turn
    own = frames.room()
    own[:1] = LARGE[-1:]
    frames.received(1)
    piped = frames.room()[: 30 * KIB]
    piped[:] = LARGE[: len(piped)]
    frames.received(len(piped))
    assert take(frames) == [LARGE[4:]]
    assert frames.settle(0)
    assert not frames.has_turn, "the next frame has to ask anew"
    assert budget.used_bytes == len(piped)
    assert send(other, LARGE[:-1]) == len(LARGE) - 1
    assert other.has_turn
    other.close()
    frames.close()
    assert budget.used_bytes == 0


def test_a_few_bytes_of_a_frame_are_no_progress() -> None:
    frames = FrameBuffer(ReceiveBudget(4 << 20), FRAME_BYTES_MAX)
    stream, position = framed(b"whole") + LARGE, 0
    noted = []
    for now_ms, size_bytes in enumerate((1, 1, 20, 1, 64 * KIB, 1, 64 * KIB - 2, 1)):
        frames.room()[:size_bytes] = stream[position : position + size_bytes]
        frames.received(size_bytes)
        take(frames)
        assert frames.settle(now_ms)
        assert frames.make_room()
        noted.append(frames.progress_ms)
        position += size_bytes
    assert noted == [0, 0, 2, 2, 4, 4, 4, 7]
    frames.close()


def test_with_nobody_else_any_frame_comes_through() -> None:
    budget = ReceiveBudget(100)
    frames = FrameBuffer(budget, FRAME_BYTES_MAX)
    assert feed(frames, LARGE) == [LARGE[4:]]
    other = FrameBuffer(budget, FRAME_BYTES_MAX)
    feed(frames, LARGE[:100])
    other.room()[:1] = b"\0"
    other.received(1)
    assert not other.settle(0)
    frames.close()
    assert other.settle(0)


@pytest.mark.parametrize("size_bytes_max", [-1, 0])
def test_without_a_limit_nobody_waits(size_bytes_max: int) -> None:
    budget = ReceiveBudget(size_bytes_max)
    frames = [FrameBuffer(budget, FRAME_BYTES_MAX) for _ in range(10)]
    for frame in frames:
        assert feed(frame, framed(bytes(FRAME_BYTES_MAX))[:-1]) == []
    assert budget.used_bytes >= 10 * FRAME_BYTES_MAX
    for frame in frames:
        frame.close()
    assert budget.used_bytes == 0


def test_who_waits_hears_when_memory_comes_back() -> None:
    freed = []
    budget = ReceiveBudget(1 << 20, on_freed=lambda: freed.append(budget.used_bytes))
    buffer = budget.take(1000)
    assert buffer is not None
    budget.give_back(buffer)
    assert freed == [0]


def test_buffers_are_used_again() -> None:
    budget = ReceiveBudget(1 << 30)
    first = budget.take(1 << 20)
    assert first is not None
    budget.give_back(first)
    assert budget.take(2 << 20) is not first
    assert budget.take(1000) is not first, "that would be wasted"
    assert budget.take(1 << 19) is first
    large = budget.take(32 << 20)
    assert large is not None
    budget.give_back(large)
    assert budget.take(32 << 20) is not large, "so much memory is not kept for later"


def test_a_buffer_moves_to_its_front_before_it_grows() -> None:
    budget = ReceiveBudget(1 << 20)
    frames = FrameBuffer(budget, FRAME_BYTES_MAX)
    stream = framed(b"x" * 30_000) + framed(b"y" * 60_000)
    frames.room()[: 64 * KIB] = stream[: 64 * KIB]
    frames.received(64 * KIB)
    assert frames.settle(0)  # nothing may be taken yet: both are kept
    assert take(frames) == [b"x" * 30_000]
    assert frames.make_room()
    assert budget.used_bytes == 64 * KIB
    assert feed(frames, stream[64 * KIB :]) == [b"y" * 60_000]
    assert budget.used_bytes == 0


def test_the_scratch_area_is_what_one_wake_up_reads() -> None:
    assert len(FrameBuffer(ReceiveBudget(2 << 20), FRAME_BYTES_MAX).room()) == SCRATCH_BYTES
    nearly_full = ReceiveBudget(2 << 20)
    nearly_full.take(1 << 20)
    assert len(FrameBuffer(nearly_full, FRAME_BYTES_MAX).room()) == 64 * KIB


def test_what_requests_keep_leaves_less_for_frames_to_grow() -> None:
    freed: list[int] = []
    budget = ReceiveBudget(4 << 20, on_freed=lambda: freed.append(budget.used_bytes))
    buffer = budget.take(1 << 20)
    assert buffer is not None
    assert budget.is_roomy
    assert not budget.keeps
    budget.keep(2 << 20)
    assert budget.keeps
    assert not budget.is_roomy
    budget.keep(2 << 20)
    assert budget.exchange(buffer, 2 << 20) is None
    assert budget.take(1 << 20) is not None, "what is left over must lie somewhere"
    budget.let_go(4 << 20)
    assert freed == [2 << 20]
    grown = budget.exchange(buffer, 1 << 21)
    assert grown is not None
    assert not budget.has_turn(grown)
