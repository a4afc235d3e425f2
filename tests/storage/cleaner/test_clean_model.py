"""Random logs, cleaned in steps, against a naive model of what compaction may do."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.protocol.records import Codec, MarkerType, Record, build_batch
from odradek.storage.cleaner.offset_map import ENTRY_BYTES
from tests.seeds import seeds
from tests.storage.cleaner.cleanable import RETENTION_MS, Cleanable, marker
from tests.storage.support import WALL_MS

EXAMPLES = len(seeds(25, 150))
KEYS = st.sampled_from([None, b"", b"a", b"b", b"c", b"d", b"long" * 20])
VALUES = st.sampled_from([None, b"", b"1", b"2" * 300])
RECORDS = st.lists(
    st.tuples(KEYS, VALUES, st.integers(-100_000, 100_000), st.booleans()), min_size=1, max_size=6
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(-1, 3), RECORDS, st.sampled_from(Codec)),
        st.tuples(st.just("end"), st.integers(2, 3), st.booleans()),
        st.tuples(st.just("roll")),
        st.tuples(st.just("clean"), st.integers(0, 2 * RETENTION_MS), st.integers(3, 40)),
    ),
    min_size=4,
    max_size=40,
)

Row = tuple[bytes | None, bytes | None, int, bool]
"""Key, value, time, whether it has a header."""


@dataclass
class Producer:
    """1 is idempotent, 2 and 3 write in transactions."""

    sequence: int = 0
    last_offset: int = -1
    first_offset: int | None = None  # of the open transaction
    offsets: list[int] = field(default_factory=list)


class World:
    """What was written, and what may be known of it."""

    def __init__(self, path: Path) -> None:
        self.log = Cleanable(path)
        self.producers = {number: Producer() for number in (1, 2, 3)}
        self.pending: list[bytes | bytearray] = []
        self.aborts: list[tuple[int, int, int, int]] = []
        self.base_offset = self.next_offset = 0
        self.written: dict[int, tuple[bytes | None, bytes | None, int]] = {}
        self.aborted: set[int] = set()
        self.wall_ms = WALL_MS

    def batch(self, number: int, rows: Sequence[Row], codec: Codec) -> None:
        offset = self.next_offset
        records = [
            Record(offset + index, WALL_MS + time, key, value, [("h", b"x")] if headed else [])
            for index, (key, value, time, headed) in enumerate(rows)
        ]
        producer = self.producers.get(number)
        if producer is None:
            self.pending.append(build_batch(records, codec=codec))
        else:
            self.pending.append(
                build_batch(
                    records,
                    codec=codec,
                    producer_id=number,
                    producer_epoch=0,
                    base_sequence=producer.sequence,
                    is_transactional=number > 1,
                )
            )
            producer.sequence += len(rows)
            producer.last_offset = offset + len(rows) - 1
            if number > 1:
                if producer.first_offset is None:
                    producer.first_offset = offset
                producer.offsets += range(offset, offset + len(rows))
        for index, (key, value, time, _) in enumerate(rows):
            self.written[offset + index] = (key, value, WALL_MS + time)
        self.next_offset += len(rows)

    def end(self, number: int, commits: bool) -> None:
        """End the producer's transaction, if it has one."""
        producer = self.producers[number]
        if producer.first_offset is None:
            return
        first, producer.first_offset = producer.first_offset, None
        kind = MarkerType.COMMIT if commits else MarkerType.ABORT
        self.pending.append(marker(kind, self.next_offset, number))
        if not commits:
            self.aborted.update(producer.offsets)
            self.aborts.append((number, first, self.next_offset, self.stable(self.next_offset + 1)))
        producer.offsets = []
        self.next_offset += 1

    def stable(self, default: int) -> int:
        """The first offset of an open transaction."""
        open_ones = [each.first_offset for each in self.producers.values()]
        return min((each for each in open_ones if each is not None), default=default)

    def roll(self) -> None:
        if self.pending:
            self.log.segment(*self.pending)
            if self.aborts:
                self.log.aborted(self.base_offset, *self.aborts)
            self.pending, self.aborts, self.base_offset = [], [], self.next_offset

    def clean(self, passed_ms: int, entries: int) -> None:
        """Clean up to a segment's beginning that no open transaction reaches back over."""
        self.roll()
        self.wall_ms += passed_ms
        log = self.log
        stable = self.stable(self.next_offset)
        ends = [base for base in [*log.bases(), self.next_offset] if base <= stable]
        end_offset = max(ends, default=0)
        if end_offset <= log.first_dirty_offset:
            return
        before = log.records()
        all_bases = log.bases()
        arguments = log.arguments()
        arguments["segments"] = [
            segment for segment in arguments["segments"] if segment["base_offset"] < end_offset
        ]
        result = log.clean_and_swap(
            **{
                **arguments,
                "end_offset": end_offset,
                "wall_ms": self.wall_ms,
                "map_bytes": entries * ENTRY_BYTES,
                "load_factor": 1.0,
                "segment_bytes": 2000,
                "producers": [[n, 0, each.last_offset] for n, each in self.producers.items()],
            }
        )
        assert result["end_offset"] <= end_offset
        assert set(log.bases()) <= set(all_bases)
        self.check([offset for offset, *_ in before], result["end_offset"])

    def clean_all(self) -> None:
        """Clean everything at once, whatever is clean already."""
        self.log.first_dirty_offset = 0
        producers = [[number, 0, each.last_offset] for number, each in self.producers.items()]
        self.log.clean_and_swap(wall_ms=self.wall_ms, segment_bytes=2000, producers=producers)
        self.check(self.written, self.next_offset)

    def check(self, before: Iterable[int], clean_end: int) -> None:
        """Nothing new, nothing changed, nothing lost that counts."""
        survivors = self.log.records()
        offsets = [offset for offset, *_ in survivors]
        assert offsets == sorted(set(offsets))
        assert set(offsets) <= set(before)
        for offset, *row in survivors:
            assert tuple(row) == self.written[offset]
        for offset in self.newest(self.next_offset).values():
            if self.written[offset][1] is not None:
                assert offset in offsets, "the newest value of a key is gone"
        known = self.newest(clean_end)
        for offset, key, *_ in survivors:
            if offset < clean_end:
                assert key is not None
                assert known[key] == offset, "an old record stayed"
                assert offset not in self.aborted
        self.check_batches()

    def newest(self, offset_end: int) -> dict[bytes, int]:
        """Where each key was written last below an offset; what was aborted does not count."""
        return {
            key: offset
            for offset, (key, _, _) in self.written.items()
            if key is not None and offset not in self.aborted and offset < offset_end
        }

    def check_batches(self) -> None:
        headers = [header for header, _ in self.log.batches()]
        last_offsets = [header.last_offset for header in headers]
        assert last_offsets == sorted(set(last_offsets))
        for number, producer in self.producers.items():
            if producer.last_offset >= 0:
                (batch,) = [each for each in headers if each.last_offset == producer.last_offset]
                assert (batch.producer_id, batch.last_sequence) == (number, producer.sequence - 1)
        ends = {(each.producer_id, each.last_offset) for each in headers if each.is_control}
        for header in headers:
            producer_id = header.producer_id
            if producer_id < 2 or header.is_control:
                continue
            is_open = self.producers[producer_id].first_offset
            assert (is_open is not None and header.base_offset >= is_open) or any(
                each == producer_id and end > header.last_offset for each, end in ends
            ), "a batch of a transaction without its marker"


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_random_logs(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory))
        for name, *arguments in [*steps, ("end", 2, True), ("end", 3, False), ("clean", 0, 40)]:
            getattr(world, name)(*arguments)
        if world.log.bases():
            world.clean_all()
            world.clean_all()  # dates the markers whose transactions the first one has emptied
            settled = world.log.batches()
            world.clean_all()
            assert world.log.batches() == settled
