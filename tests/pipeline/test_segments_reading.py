"""Ranges of segments as rows: every field, codecs, transactions, damage.  No Spark, no Java."""

import json
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from odradek.protocol.primitives import Buffer
from odradek.protocol.records import Codec, MarkerType, Record, build_batch
from odradek.protocol.records.batch import seal
from odradek.storage.log.index import OFFSET_ENTRY
from tests.pipeline.segment_files import (
    TIME_MS,
    PartitionFiles,
    flip,
    record,
    write_checkpoints,
)
from tests.spark.releases import present
from tests.spark.warm import environment

pytestmark = pytest.mark.spark
Read = Callable[..., Any]


@pytest.fixture(scope="module")
def ask() -> Iterator[Callable[[dict[str, str]], dict[str, Any]]]:
    command = [str(present("4.0").python), "-m", "tests.pipeline.segment_rows"]
    reader = subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdin is not None and reader.stdout is not None
    with reader, reader.stdin as questions, reader.stdout as answers:

        def ask(given: dict[str, str]) -> dict[str, Any]:
            questions.write(json.dumps(given) + "\n")
            questions.flush()
            answer: dict[str, Any] = json.loads(answers.readline())
            return answer

        yield ask
        questions.close()


@pytest.fixture
def read(ask: Callable[[dict[str, str]], dict[str, Any]], tmp_path: Path) -> Read:
    def read(**given: str) -> Any:
        answer = ask({"path": str(tmp_path), "includeHeaders": "true", **given})
        assert "error" not in answer, answer["error"]
        return answer["rows"]

    return read


@pytest.fixture
def files(tmp_path: Path) -> PartitionFiles:
    return PartitionFiles(tmp_path, "t", 3)


def finish(files: PartitionFiles) -> None:
    write_checkpoints(files.path.parent, {files.close().key: files.next_offset})


def row(each: Record, timestamp_type: int = 0) -> dict[str, Any]:
    """A record as the Kafka source has it."""
    return {
        "key": text(each.key),
        "value": text(each.value),
        "topic": "t",
        "partition": 3,
        "offset": each.offset,
        "timestamp": each.timestamp,
        "timestampType": timestamp_type,
        "headers": [[name, text(value)] for name, value in each.headers] or None,
    }


def text(data: Buffer | None) -> str | None:
    return None if data is None else bytes(data).decode("latin-1")


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    return [each["offset"] for each in rows]


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_every_field_in_every_codec(files: PartitionFiles, read: Read, codec: Codec) -> None:
    for count in (1, 300, 2, 50):
        files.batch(count, codec=codec)
    finish(files)
    assert read() == [row(record(offset)) for offset in range(353)]
    without = read(includeHeaders="false")
    assert without == [
        {name: value for name, value in row(record(offset)).items() if name != "headers"}
        for offset in range(353)
    ]


def test_records_of_every_size(files: PartitionFiles, read: Read) -> None:
    sizes = [0, 1, 62, 63, 64, 127, 128, 8_190, 8_200, 70_000, 3_000_000, 5]
    records = [
        Record(n, TIME_MS + (-1) ** n * n * 10**9, b"k", b"v" * s) for n, s in enumerate(sizes)
    ]
    names = [("grün" * 300, b"1"), ("", b"")] * 40
    records.append(Record(len(sizes), -1, b"", None, [(name, value) for name, value in names]))
    files.append(build_batch(records))
    finish(files)
    assert read() == [row(each) for each in records]


def test_long_batches_beside_short_ones(files: PartitionFiles, read: Read) -> None:
    """Long ones are cut where records seem to begin, which some of these values only pretend."""
    plain = build_batch([Record(n, TIME_MS, b"key", b"v" * (n % 90)) for n in range(900)])
    values: list[Callable[[int], bytes]] = [
        lambda n: b"value" * (n % 50),
        lambda n: bytes(n % 300),
        lambda n: bytes(plain[61 + n : 900 + n % 700]),
        lambda n: b"v" * (9_000 if n % 600 == 599 else n % 7),
        lambda n: b"",
    ]
    expected: list[Record] = []
    for number, value in enumerate(values * 2):
        first = files.next_offset
        kept = [n for n in range(1_500) if number != 5 or n % 3]  # compaction took the others
        records = [Record(first + n, TIME_MS + n, None, value(n)) for n in kept]
        last = first + 1_499
        codec = Codec.LZ4 if number in (3, 4, 6) else Codec.NONE
        files.append(build_batch(records, base_offset=first, last_offset=last, codec=codec))
        expected += records
        expected += [record(files.next_offset + n) for n in range(20)]
        files.batch(20, codec=number % 5)
    finish(files)
    assert read() == [row(each) for each in expected]


def test_a_long_batch_that_is_not_what_it_says(files: PartitionFiles, read: Read) -> None:
    good = [Record(n, TIME_MS, b"key", b"value" * 7) for n in range(3_000)]
    files.append(build_batch(good))
    for broken in (b"", b"\x01", b"\xff\xff\xff"):
        first = files.next_offset
        records = [Record(first + n, TIME_MS, b"key", b"value" * 7) for n in range(3_000)]
        batch = build_batch(records)
        length = batch.index(b"value", len(batch) // 2) - 10  # of a record in the middle
        batch[length : length + len(broken)] = broken
        batch[60] += not broken  # one record more than there are
        seal(batch)
        files.append(batch)
    last = [Record(files.next_offset + n, TIME_MS, b"key", b"value" * 7) for n in range(3_000)]
    files.append(build_batch(last))
    finish(files)
    assert read() == [row(each) for each in good + last]


def test_records_of_random_batches_are_found() -> None:
    command = [str(present("4.0").python), "-m", "tests.pipeline.finding_cases", "200", "300"]
    subprocess.run(command, env=environment(), check=True)


def test_where_long_batches_are_cut() -> None:
    """The guess has to be right nearly always, or reading is slow."""
    program = """
import numpy as np
from odradek.pipeline.segments import finding
from odradek.protocol.records import Record, build_batch
records = [Record(n, n // 9, b"key-%d" % n, b"value" * (n % 40)) for n in range(9_000)]
batch = bytes(build_batch(records))
whole = finding.Chains(*(np.array([each]) for each in (61, len(batch), 9_000)))
chains, _ = finding._cut(batch, whole, np.array([True]))
assert len(chains.start) > 50, chains
walk, walked = finding._walk, []
finding._walk = lambda *given: walked.append(given[-1]) or walk(*given)
assert finding._follow(batch, chains, np.zeros(9_000, np.int64)).all()
assert sum(walked) < 900, walked
"""
    subprocess.run([present("4.0").python, "-c", program], env=environment(), check=True)


def test_the_time_of_the_append(files: PartitionFiles, read: Read) -> None:
    files.batch(3, append_time_ms=TIME_MS + 77)
    files.batch(3)
    finish(files)
    appended = [row(record(offset), 1) | {"timestamp": TIME_MS + 77} for offset in range(3)]
    assert read() == appended + [row(record(offset)) for offset in range(3, 6)]


def test_times_that_spark_cannot_hold_are_null_and_counted(
    files: PartitionFiles, ask: Callable[[dict[str, str]], dict[str, Any]], tmp_path: Path
) -> None:
    """Such as nanoseconds for milliseconds; what is before 1970 is a time as any other."""
    times = [TIME_MS, TIME_MS * 10**6, 9_223_372_036_854_776, -(2**63), -1, -12_219_292_800_001]
    for time_ms in times:
        files.batch(2, time_ms=time_ms)
    finish(files)
    answer = ask({"path": str(tmp_path)})
    told = [time_ms if abs(time_ms) < 9 * 10**15 else None for time_ms in times for _ in "ab"]
    assert [each["timestamp"] for each in answer["rows"]] == told
    assert offsets(answer["rows"]) == list(range(2 * len(times)))
    assert "timestamps beyond Spark's are null topic=t partition=3 records=6" in answer["said"]


def test_offsets_that_compaction_left(files: PartitionFiles, read: Read) -> None:
    kept = [2, 3, 9]
    files.append(build_batch([record(n) for n in kept], base_offset=0, last_offset=9))
    files.append(build_batch([], base_offset=10, last_offset=19))
    files.append(build_batch([record(40)], base_offset=40))
    finish(files)
    assert read() == [row(record(offset)) for offset in [*kept, 40]]


def test_bounds_inside_batches_and_many_ranges(files: PartitionFiles, read: Read) -> None:
    for number in range(60):
        files.batch(7, codec=number % 5)
        if number % 25 == 24:
            files.roll()
    finish(files)
    bounds = {
        "startingOffsets": '{"t": {"3": 17}}',
        "endingOffsets": '{"t": {"3": 401}}',
    }
    for parts in ("1", "9", "40"):
        assert read(**bounds, minPartitions=parts) == [row(record(n)) for n in range(17, 401)]
    by_time = {"startingTimestamp": str(TIME_MS + 101), "endingTimestamp": str(TIME_MS + 103)}
    assert offsets(read(**by_time)) == [101, 102]


def test_an_index_that_points_too_far(files: PartitionFiles, read: Read) -> None:
    for _ in range(40):
        files.batch(10)
    finish(files)
    index = next(files.path.glob("*.index"))
    entries = list(OFFSET_ENTRY.iter_unpack(index.read_bytes()))
    shifted = [(one[0], other[1]) for one, other in zip(entries, entries[3:], strict=False)]
    index.write_bytes(b"".join(OFFSET_ENTRY.pack(*entry) for entry in shifted))
    since = {"startingOffsets": '{"t": {"3": 205}}', "minPartitions": "7"}
    assert offsets(read(**since)) == list(range(205, 400))


def test_a_filter_by_time_leaves_out_old_batches(files: PartitionFiles, read: Read) -> None:
    for _ in range(4):
        files.batch(10)
    finish(files)
    assert offsets(read(timestampMsMin=str(TIME_MS + 15))) == list(range(10, 40))


def test_transactions(files: PartitionFiles, read: Read) -> None:
    files.batch(2)
    files.transactional(7)  # 2 to 6, aborted
    files.transactional(8)  # 7 to 11, committed
    files.end_transaction(7, MarkerType.ABORT)  # 12
    files.roll()
    files.transactional(7)  # 13 to 17, committed
    files.end_transaction(8, MarkerType.COMMIT)  # 18
    files.end_transaction(7, MarkerType.COMMIT)  # 19
    files.transactional(9)  # 20 to 24, open
    finish(files)
    markers = {12, 18, 19}
    assert offsets(read()) == [n for n in range(25) if n not in markers]
    committed = [n for n in range(20) if n not in markers and not 2 <= n <= 6]
    for parts in ("1", "8"):
        assert offsets(read(isolation="read_committed", minPartitions=parts)) == committed


def test_a_broken_transaction_index_is_no_reason_to_guess(
    files: PartitionFiles, ask: Callable[[dict[str, str]], dict[str, Any]]
) -> None:
    files.transactional(7)
    files.end_transaction(7, MarkerType.ABORT)
    finish(files)
    path = next(files.path.glob("*.txnindex"))
    path.write_bytes(path.read_bytes()[:-3])
    given = {"path": str(files.path.parent), "isolation": "read_committed"}
    assert "odradek log repair" in ask(given)["error"]


@pytest.mark.parametrize("where", ["base offset", "length", "magic", "checksum", "body"])
@pytest.mark.parametrize("parts", ["1", "16"])
def test_a_damaged_batch_is_told_and_the_rest_is_read(
    files: PartitionFiles,
    ask: Callable[[dict[str, str]], dict[str, Any]],
    where: str,
    parts: str,
) -> None:
    positions = [files.batch(10) for _ in range(30)]
    finish(files)
    byte = {"base offset": 5, "length": 10, "magic": 16, "checksum": 18, "body": 80}[where]
    flip(files.logs[0], positions[12] + byte)
    given = {"path": str(files.path.parent), "minPartitions": parts}
    answer = ask(given)
    assert offsets(answer["rows"]) == [n for n in range(300) if not 120 <= n < 130]
    place = f"path={files.logs[0]} position={positions[12]} bytes={positions[13] - positions[12]}"
    assert place in answer["said"][0]
    assert answer["said"][1:] == [
        f"damage skipped topic=t partition=3 places=1 bytes={positions[13] - positions[12]}"
    ]
    assert f"damaged at position {positions[12]}" in ask({**given, "mode": "FAILFAST"})["error"]
    (damage,) = ask({**given, "showDamage": "true"})["rows"]
    assert damage.pop("problem")
    assert damage == {
        "topic": "t",
        "partition": 3,
        "file": str(files.logs[0]),
        "position": positions[12],
        "positionEnd": positions[13],
        "offset": 120,
        "offsetEnd": 130,
    }


def test_damage_over_the_edge_of_ranges_is_told_once(
    files: PartitionFiles, ask: Callable[[dict[str, str]], dict[str, Any]]
) -> None:
    positions = [files.batch(10) for _ in range(40)]
    finish(files)
    for number in range(5, 35):
        flip(files.logs[0], positions[number] + 80)
    given = {"path": str(files.path.parent), "minPartitions": "16"}
    answer = ask(given)
    assert offsets(answer["rows"]) == [*range(50), *range(350, 400)]
    damages = ask({**given, "showDamage": "true"})["rows"]
    assert damages[0]["offset"] == 50 and damages[-1]["offsetEnd"] == 350
    for one, next_one in pairwise(damages):
        assert one["positionEnd"] == next_one["position"]
        assert one["offsetEnd"] == next_one["offset"]


def test_damage_at_the_end(
    files: PartitionFiles, ask: Callable[[dict[str, str]], dict[str, Any]]
) -> None:
    """Below the high watermark it is damage; at the log's end, a write that was not finished."""
    for _ in range(5):
        last = files.batch(10)
    finish(files)
    log = files.logs[0]
    log.write_bytes(log.read_bytes()[: last + 70])
    given = {"path": str(files.path.parent)}
    cut = ask(given)
    assert offsets(cut["rows"]) == list(range(40))
    assert f"position={last} bytes=70" in cut["said"][0]
    to_end = ask({**given, "toLogEnd": "true"})
    assert offsets(to_end["rows"]) == list(range(40))
    assert f"position={last} bytes=70 offsets=40..49" in to_end["said"][0]
    assert f"position {last}" in ask({**given, "toLogEnd": "true", "mode": "FAILFAST"})["error"]
    (damage,) = ask({**given, "toLogEnd": "true", "showDamage": "true"})["rows"]
    assert (damage["offset"], damage["offsetEnd"]) == (40, 50)
    write_checkpoints(files.path.parent, {files.key: 40})
    to_end = ask({**given, "toLogEnd": "true", "mode": "FAILFAST"})
    assert offsets(to_end["rows"]) == list(range(40)) and to_end["said"] == []


@pytest.mark.parametrize(
    "how", ["longer", "shorter", "count", "headers", "endless", "not compressed"]
)
def test_records_that_their_batch_belies(
    files: PartitionFiles, ask: Callable[[dict[str, str]], dict[str, Any]], how: str
) -> None:
    """The checksum is right, and still it can't be read."""
    files.batch(10)
    batch = build_batch([Record(n, TIME_MS, b"key", b"value\0") for n in range(10, 20)])
    if how == "longer":
        batch[61 + 4] += 60  # the key's length
    elif how == "shorter":
        batch[61 + 8] -= 2  # the value's: what is left of it reads as no headers
    elif how == "count":
        batch[60] += 1
    elif how == "headers":  # 2^62 of them, twice which is no number of 64 bits
        batch[61 + 4 : 61 + 16] = b"\x01\x01" + b"\x80" * 9 + b"\x01"
    elif how == "endless":  # the first record's time, behind which all is as it should be
        batch[61 + 2 : 61 + 16] = b"\x80" * 10 + b"\x00\x01\x01\x00"
    else:
        batch[22] |= Codec.LZ4
    seal(batch)
    position = files.append(batch)
    files.batch(10)
    finish(files)
    answer = ask({"path": str(files.path.parent)})
    assert offsets(answer["rows"]) == [*range(10), *range(20, 30)]
    assert f"position={position} " in answer["said"][0]
    assert "offsets=10..19" in answer["said"][0]


def test_messages_of_an_old_format_are_no_damage(
    files: PartitionFiles, ask: Callable[[dict[str, str]], dict[str, Any]]
) -> None:
    files.batch(1)
    finish(files)
    body = b"\x01\x00" + bytes(8) + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x01v"
    message = bytes(8) + (len(body) + 4).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body
    files.logs[0].write_bytes(message * 4)
    assert "format 1" in ask({"path": str(files.path.parent)})["error"]
