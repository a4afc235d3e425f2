"""What is said about settings of retention and compaction, and which segments then go.

`CONVERSATIONS` are for brokers that seldom look for old segments; `LOG_STARTS` for brokers that do
all the time (`OFTEN`).
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import Codec, Record, build_batch
from tests.support.messages import delete_records, list_offsets, produce_request
from tests.wire.admin_talk import (
    PRODUCE_VERSION,
    TOPIC,
    Conversation,
    Op,
    Resource,
    change,
    change_quietly,
    eventually,
    named,
    show,
)
from tests.wire.talk import Talk

HOUR_MS: Final = 3_600_000
EARLIEST: Final = -2
OFTEN: Final = {
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "0",
}

# -- settings

VALUES: Final[dict[str, Sequence[str]]] = {
    "retention.ms": ("-1", "0", "-2", "9223372036854775807", "9223372036854775808", "1.5"),
    "retention.bytes": ("-1", "-5", "0", "x"),
    "delete.retention.ms": ("0", "-1"),
    "file.delete.delay.ms": ("0", "-1"),
    "min.cleanable.dirty.ratio": ("0", "1", "1.01", "-0.1", "half", "0.25"),
    "max.compaction.lag.ms": ("1", "0"),
    "min.compaction.lag.ms": ("0", "-1", "5"),
    "segment.ms": ("1", "0"),
    "segment.jitter.ms": ("0", "-1"),
    "segment.bytes": ("14", "13"),
    "flush.ms": ("0", "-1"),
    "flush.messages": ("1", "0"),
    "message.timestamp.before.max.ms": ("0", "-1"),
    "message.timestamp.after.max.ms": ("0", "-1"),
}


def _setting(name: str) -> Conversation:
    def talk_about(talk: Talk) -> None:
        topic = talk.create("t")
        for value in VALUES[name]:
            change(talk, value, Resource(TOPIC, topic, [Op(name, value)]))
            show(talk, f"{value}, shown", TOPIC, topic, name)

    return talk_about


def compaction_lags_that_cross(talk: Talk) -> None:
    """The least lag may not exceed the greatest, in whichever order they are set."""
    topic = talk.create("t")
    names = "min.compaction.lag.ms", "max.compaction.lag.ms"
    for number, (low, high) in enumerate((("5", "9"), ("9", "5"), ("7", "7"))):
        ops = [Op(names[0], low), Op(names[1], high)]
        change(talk, f"{number} together", Resource(TOPIC, topic, ops))
        show(talk, f"{number} together, shown", TOPIC, topic, *names)
    change(talk, "too large", Resource(TOPIC, topic, [Op(names[0], "8")]))
    change(talk, "too small", Resource(TOPIC, topic, [Op(names[1], "6")]))
    show(talk, "shown", TOPIC, topic, *names)


def keyless_records_come_and_go(talk: Talk) -> None:
    """A topic that becomes compacted, and is so no longer."""
    topic = talk.create("t")
    keyless = [Record(0, 1, b"key", b"a"), Record(1, 1, None, b"b"), Record(2, 1, None, b"c")]
    for number, policy in enumerate(("delete", "compact", "compact,delete", "delete")):
        _change_until(
            talk,
            Resource(TOPIC, topic, [Op("cleanup.policy", policy)]),
            lambda: _error_code(talk, topic, keyless),
            ErrorCode.INVALID_RECORD if "compact" in policy else ErrorCode.NONE,
        )
        for codec in (Codec.NONE, Codec.GZIP):
            for version in (3, 8, PRODUCE_VERSION):
                for records in (keyless, keyless[:1], keyless[1:]):
                    label = f"{number} {codec.name} v{version} {len(records)}"
                    talk.note(label, _error_code(talk, topic, records, codec, version))


def records_of_another_time(talk: Talk) -> None:
    """Timestamps too far from now, as the bounds change; the older name for both comes last."""
    topic = talk.create("t")
    now = time.time_ns() // 1_000_000
    stamps = {"before": now - HOUR_MS, "none": -1, "now": now - 10, "after": now + HOUR_MS}

    def code(what: str, codec: int = Codec.NONE) -> int:
        records = [Record(0, stamps[what], None, b"a"), Record(1, now, None, b"b")]
        return _error_code(talk, topic, records, codec)

    for bound in ("before", "after"):
        name = f"message.timestamp.{bound}.max.ms"
        for value in (HOUR_MS // 2, 2 * HOUR_MS):
            _change_until(
                talk,
                Resource(TOPIC, topic, [Op(name, str(value))]),
                partial(code, bound),
                ErrorCode.INVALID_TIMESTAMP if value < HOUR_MS else ErrorCode.NONE,
            )
            for what in stamps:
                for codec in (Codec.NONE, Codec.GZIP):
                    talk.note(f"{bound} {value} {what} {codec.name}", code(what, codec))


def _change_until(
    talk: Talk, resource: Resource, code: Callable[[], int], expected: ErrorCode
) -> None:
    """Change, and wait for the effect: Kafka answers before."""
    change_quietly(talk, resource)
    eventually(lambda: code() == expected)


def _error_code(
    talk: Talk,
    topic: str,
    records: Sequence[Record],
    codec: int = Codec.NONE,
    version: int = PRODUCE_VERSION,
) -> int:
    """What a Produce is answered."""
    request = produce_request(topic, {0: build_batch(records, codec=codec)})
    answer = talk.exchange(request, version)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


CONVERSATIONS: tuple[Conversation, ...] = (
    *(named(f"values_of_{name.replace('.', '_')}", _setting(name)) for name in VALUES),
    compaction_lags_that_cross,
    keyless_records_come_and_go,
    records_of_another_time,
)

# -- log starts


class Filling(NamedTuple):
    """A topic, and the ages of its batches, each of one record of the same size."""

    configs: dict[str, str]
    ages_ms: Sequence[int]
    delete_before: int | None = None
    """What DeleteRecords is asked for."""
    stamp: str = "CreateTime"


def _batch(number: int, timestamp: int) -> bytearray:
    value = b"%06d" % number * 20
    return build_batch(
        [Record(0, timestamp, b"key %06d" % number, value)],
        producer_id=1000,
        producer_epoch=0,
        base_sequence=number,
    )


BATCH_BYTES: Final = len(_batch(0, 1))
PER_SEGMENT: Final = 4
OLD: Final = 2 * HOUR_MS
NO_TIMESTAMP: Final = 1 << 60
NOW_40: Final = [0] * 40
NEVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
BY_TIME: Final = {"retention.ms": str(HOUR_MS), "retention.bytes": "-1"}
UNCOMPACTED: Final = {"min.compaction.lag.ms": str(1 << 40)}


def _by_size(size_bytes: int, **more: str) -> dict[str, str]:
    return {"retention.ms": "-1", "retention.bytes": str(size_bytes), **more}


SEGMENT_BYTES: Final = PER_SEGMENT * BATCH_BYTES
FILLINGS: Final[dict[str, Filling]] = {
    "never": Filling(NEVER, [OLD] * 40),
    "by size": Filling(_by_size(3000), NOW_40),
    "by exactly the size of segments": Filling(_by_size(3 * SEGMENT_BYTES), NOW_40),
    "by a byte less": Filling(_by_size(3 * SEGMENT_BYTES - 1), NOW_40),
    "by a byte more": Filling(_by_size(3 * SEGMENT_BYTES + 1), NOW_40),
    "by exactly the size of the log": Filling(_by_size(40 * BATCH_BYTES), NOW_40),
    "by size, active not full": Filling(_by_size(3 * SEGMENT_BYTES), [0] * 38),
    "by size 1": Filling(_by_size(1), NOW_40),
    "by size 0": Filling(_by_size(0), NOW_40),
    "by size -2": Filling(_by_size(-2), NOW_40),
    "by time": Filling(BY_TIME, [OLD] * 18 + [0] * 22),
    "by time, old after new": Filling(BY_TIME, [OLD] * 9 + [0] + [OLD] * 30),
    "by time, new in each segment": Filling(BY_TIME, [OLD, OLD, 0, OLD] * 10),
    "by time, all old": Filling(BY_TIME, [OLD] * 38),
    "by time, from the future": Filling(BY_TIME, [-OLD] * 20),
    "by time, without timestamps": Filling(BY_TIME, [NO_TIMESTAMP] * 20),
    "by time, when appended": Filling(BY_TIME, [OLD] * 20, stamp="LogAppendTime"),
    "by time 0": Filling({"retention.ms": "0"}, [OLD] * 20),
    "by both": Filling(
        {"retention.ms": str(HOUR_MS), "retention.bytes": "3000"}, [OLD] * 10 + [0] * 30
    ),
    "by both, time more": Filling(
        {"retention.ms": str(HOUR_MS), "retention.bytes": "3000"}, [OLD] * 34 + [0] * 6
    ),
    "records deleted": Filling(NEVER, NOW_40, delete_before=22),
    "records deleted to a segment": Filling(NEVER, NOW_40, delete_before=20),
    "all records deleted": Filling(NEVER, NOW_40, delete_before=-1),
    "records deleted, and by size": Filling(_by_size(3000), NOW_40, delete_before=39),
    "compacted only": Filling(
        {**_by_size(0), "retention.ms": "0", "cleanup.policy": "compact", **UNCOMPACTED},
        [OLD] * 40,
    ),
    "compacted too, by size": Filling(
        {**_by_size(3000), "cleanup.policy": "compact,delete", **UNCOMPACTED}, NOW_40
    ),
    "compacted too, by time": Filling(
        {**BY_TIME, "cleanup.policy": "compact,delete", **UNCOMPACTED}, [OLD] * 18 + [0] * 22
    ),
}


def log_starts(talk: Talk) -> None:
    """Which segments go of logs that were filled in the same way, and what stays on the disk."""
    now = time.time_ns() // 1_000_000
    topics: dict[str, str] = {}
    for label, filling in FILLINGS.items():
        topics[label] = _filled(talk, f"t{len(topics)}", filling, now)
    for policy in ("delete", "compact,delete"):
        for number in range(2):  # so that a whole look has come between
            _wait_for_a_look(talk, f"sentinel-{len(policy)}-{number}", policy, now)
    for label, topic in topics.items():
        talk.ask(f"{label}: earliest", list_offsets(topic, EARLIEST), 7)
        directory = talk.server.data_dir / f"{topic}-0"
        talk.note(f"{label}: files", _names(directory))
        talk.note(f"{label}: epochs", (directory / "leader-epoch-checkpoint").read_text())


def _filled(talk: Talk, stem: str, filling: Filling, now: int) -> str:
    """Nothing goes before all is there."""
    first = {**NEVER, "segment.bytes": str(SEGMENT_BYTES), "message.timestamp.type": filling.stamp}
    topic = talk.create(stem, 1, **{name.replace(".", "_"): v for name, v in first.items()})
    for number, age_ms in enumerate(filling.ages_ms):
        timestamp = -1 if age_ms == NO_TIMESTAMP else now - age_ms
        request = produce_request(topic, {0: _batch(number, timestamp)})
        answer = talk.exchange(request, PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == 0, (topic, answer)
    if filling.delete_before is not None:
        answer = talk.exchange(delete_records((topic, 0, filling.delete_before)), 2)
        assert answer.topics[0].partitions[0].error_code == 0, (topic, answer)
    ops = [Op(name, value) for name, value in filling.configs.items()]
    change_quietly(talk, Resource(TOPIC, topic, ops))
    return topic


def _wait_for_a_look(talk: Talk, stem: str, policy: str, now: int) -> None:
    """Until the broker has deleted the only record of a topic, which is too old."""
    configs = {**UNCOMPACTED, **BY_TIME, "cleanup.policy": policy}
    topic = _filled(talk, stem, Filling(configs, [OLD]), now)

    def is_gone() -> bool:
        answer = talk.exchange(list_offsets(topic, EARLIEST), 7)
        return bool(answer.topics[0].partitions[0].offset == 1)

    eventually(is_gone)


def _names(directory: Path) -> list[str]:
    """What is left, but indexes: Kafka makes them with their first entry."""
    passed_over = {".deleted", ".index", ".timeindex"}
    return sorted(path.name for path in directory.iterdir() if path.suffix not in passed_over)


LOG_STARTS: tuple[Conversation, ...] = (log_starts,)
