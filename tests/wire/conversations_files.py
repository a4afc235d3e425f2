"""What is left on disk by the same records: after a clean stop, and after kill -9."""

from collections.abc import Callable
from functools import partial
from typing import Final

from odradek.protocol.messages.k02_list_offsets import ListOffsetsPartition
from odradek.protocol.records import Codec
from tests.support.messages import fetch_request, produce_request
from tests.support.waiting import until
from tests.wire.conversations_read import offsets
from tests.wire.talk import TIMESTAMP, Plain, Talk, batch

PRODUCE_VERSION: Final = 11
PARTITIONS: Final = 2
# Where both name the same batches; an index may be rebuilt with other gaps.
REBUILT: Final = (".index", ".timeindex")


def _use_again(talk: Talk, topic: str) -> None:
    """Start on the files that are there, read them, append to them, stop."""
    talk.server.start()
    _read(talk, "started", topic)
    _append_again(talk, "started", topic)
    talk.close()
    talk.server.stop()


def files_after_clean_stop(talk: Talk) -> None:
    """Every file of a data directory that was closed, then opened and used again."""
    topic = _filled(talk)
    talk.close()
    talk.server.stop()
    talk.note("stopped", _files(talk, topic))
    _use_again(talk, topic)
    talk.note("stopped again", _without_indexes(_files(talk, topic)))


def files_after_kill(talk: Talk) -> None:
    """What a crash leaves, and what comes of it."""
    topic = _filled(talk)
    talk.close()
    talk.server.kill()
    talk.note("killed", _without_indexes(_files(talk, topic), checkpoints=False))
    _use_again(talk, topic)
    talk.note("stopped", _without_indexes(_files(talk, topic)))


def torn_tail(talk: Talk) -> None:
    """A crash in the middle of a batch, and a flipped bit in the last whole one."""
    topic = _filled(talk)
    talk.close()
    talk.server.kill()
    last = max((talk.server.data_dir / f"{topic}-0").glob("*.log"))
    data = bytearray(last.read_bytes())
    last.write_bytes(bytes(data) + bytes(data[:40]))
    other = max((talk.server.data_dir / f"{topic}-1").glob("*.log"))
    data = bytearray(other.read_bytes())
    data[-3] ^= 1
    other.write_bytes(bytes(data))
    _use_again(talk, topic)
    talk.note("stopped", _without_indexes(_files(talk, topic)))


def _filled(talk: Talk) -> str:
    topic = talk.create("t", PARTITIONS, segment_bytes="3000", index_interval_bytes="200")
    for number in range(60):
        codec = Codec.GZIP if number % 5 == 0 else Codec.NONE
        data = batch(
            *[b"value %d " % number * 10] * 3,
            timestamp=TIMESTAMP + number * 1000,
            codec=codec,
            producer_id=1000 + number % 2,
            producer_epoch=0,
            base_sequence=number // 2 * 3,
        )
        _produce(talk, topic, 0, data)
    for number in range(3):
        _produce(talk, topic, 1, batch(b"a", b"b", timestamp=TIMESTAMP + number))
    return topic


def _produce(talk: Talk, topic: str, partition: int, data: bytearray) -> None:
    answer = talk.exchange(produce_request(topic, {partition: data}), PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer


def _is_led(talk: Talk, topic: str, partition: int) -> bool:
    answer = talk.exchange(fetch_request(topic, partition=partition), 12)
    return answer is not None and answer.responses[0].partitions[0].error_code == 0


def _read(talk: Talk, label: str, topic: str) -> None:
    for partition in range(PARTITIONS):
        until(partial(_is_led, talk, topic, partition))  # Kafka serves before it leads
        talk.ask(f"{label}: log {partition}", fetch_request(topic, partition=partition), 12)
        for stamp in (-3, -2, -1, TIMESTAMP + 30_001):
            wanted = ListOffsetsPartition(partition_index=partition, timestamp=stamp)
            asked = offsets(topic, wanted)
            talk.ask(f"{label}: offset {stamp} of {partition}", asked, 9)


def _append_again(talk: Talk, label: str, topic: str) -> None:
    """A duplicate, a gap and the next batch of a producer from before the stop."""
    for sequence in (87, 99, 90):
        data = batch(*[b"again"] * 3, producer_id=1000, producer_epoch=0, base_sequence=sequence)
        request = produce_request(topic, {0: data})
        talk.ask(f"{label}: sequence {sequence}", request, PRODUCE_VERSION)
    request = produce_request(topic, {1: batch(b"more")})
    talk.ask(f"{label}: more", request, PRODUCE_VERSION)


def _files(talk: Talk, topic: str) -> dict[str, Plain]:
    """Contents by path, without what is each broker's own: ids, order of lines, comments."""
    directory = talk.server.data_dir
    found: dict[str, Plain] = {}
    for partition in range(PARTITIONS):
        for path in sorted((directory / f"{topic}-{partition}").iterdir()):
            content: Plain = path.read_bytes()
            if path.name == "partition.metadata":
                content = [line.partition(":")[0] for line in path.read_text().splitlines()]
            found[f"{partition}/{path.name}"] = content
    for path in sorted(directory.glob("*checkpoint")):
        if path.name != "cleaner-offset-checkpoint":
            lines = path.read_text().splitlines()
            found[path.name] = sorted(line for line in lines if line.startswith(topic))
    found["meta.properties"] = sorted(
        line.partition("=")[0]
        for line in (directory / "meta.properties").read_text().splitlines()
        if not line.startswith("#")
    )
    clean = directory / ".kafka_cleanshutdown"
    found["clean shutdown"] = clean.read_bytes() if clean.exists() else None
    return found


def _without_indexes(files: dict[str, Plain], *, checkpoints: bool = True) -> dict[str, Plain]:
    return {
        name: content
        for name, content in files.items()
        if not name.endswith(REBUILT) and (checkpoints or "checkpoint" not in name)
    }


CONVERSATIONS: tuple[Callable[[Talk], None], ...] = (
    files_after_clean_stop,
    files_after_kill,
    torn_tail,
)
