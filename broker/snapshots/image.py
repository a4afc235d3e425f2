"""What a snapshot remembers, and what to undo to return to it: comparisons, without I/O.

Tests mostly create topics, append records and use groups. All that is undone in place: topics that
are new are dropped, logs are cut to where they ended, and the coordinators read theirs again. What
else has changed in the store (settings, ACLs, users, quotas, deleted topics), and records that are
gone, can't be undone in running brokers: `undo_of` says what it is, and the brokers are started
again on a copy of the files.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ..coordination import znodes
from ..core.partition_state import TopicPartition

BOOKKEEPING: Final = (
    "/admin",
    "/brokers/ids",
    "/brokers/seqid",
    "/cluster",
    "/config/changes",
    "/controller",
    "/controller_epoch",
    "/feature",
    "/isr_change_notification",
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
)
"""Znodes about who is there and what was last announced, which are no state of a test. Producer ids
are never given twice, so that a late producer is not taken for another one."""
TOPIC_CONFIGS: Final = "/config/topics"


class CannotUndo(Exception):
    """Something has changed that can't be undone while the brokers run; a clause that says what."""


class LogMark(NamedTuple):
    """Where the log of a replica begins and ends, and in which segments it is."""

    topic_id: bytes | None
    log_start_offset: int
    log_end_offset: int
    segments: tuple[tuple[int, int], ...]
    """(base offset, bytes) of each."""
    replica_count: int
    cleaner_offset: int | None = None
    """Up to where it was compacted."""


Nodes = Mapping[str, bytes]
"""The data of the store's lasting nodes, by path."""
Marks = Mapping[TopicPartition, LogMark]


class Image(NamedTuple):
    """The state of all brokers of a process."""

    nodes: Nodes
    marks: Mapping[int, Marks]
    """Of the replicas on each broker, by broker id."""


class Undo(NamedTuple):
    """What must be undone."""

    dropped_topics: tuple[str, ...]
    """Topics that are new, and those of which only the settings were written yet."""
    dropped_paths: tuple[str, ...]
    """Their znodes, children first."""
    rewound: Mapping[int, Mapping[TopicPartition, LogMark]]
    """By broker: the replicas whose logs have grown, and where they ended."""

    @property
    def rewound_count(self) -> int:
        """How many logs have grown."""
        return sum(map(len, self.rewound.values()))


def undo_of(then: Image, now: Image) -> Undo:
    """What to undo in `now` to return to `then`.  Raises: CannotUndo."""
    if then.marks.keys() != now.marks.keys():
        raise CannotUndo("other brokers run than then")
    dropped, paths = _dropped(then.nodes, now.nodes)
    rewound = {
        broker_id: dict(_grown(marks, now.marks[broker_id]))
        for broker_id, marks in then.marks.items()
    }
    return Undo(tuple(sorted(dropped)), tuple(sorted(paths, reverse=True)), rewound)


def _dropped(then: Nodes, now: Nodes) -> tuple[set[str], list[str]]:
    dropped: set[str] = set()
    paths: list[str] = []
    if then is now:  # nobody has written to the store
        return dropped, paths
    for path in _changed(then, now):
        topic = _topic_of(path)
        if topic is None:
            raise CannotUndo(f"the store's {path} has changed")
        if znodes.topic_path(topic) not in then and path not in then:
            dropped.add(topic)
            paths.append(path)
        elif znodes.topic_path(topic) not in now:
            raise CannotUndo(f"topic {topic} was deleted")
        else:
            raise CannotUndo(f"topic {topic} was changed ({path})")
    return dropped, paths


def _changed(then: Nodes, now: Nodes) -> Iterator[str]:
    """The paths that were added, removed or changed."""
    for path, data in now.items():
        if then.get(path) != data and not _is_bookkeeping(path):
            yield path
    for path in then.keys() - now.keys():
        if not _is_bookkeeping(path):
            yield path


def _is_bookkeeping(path: str) -> bool:
    return any(path == prefix or path.startswith(f"{prefix}/") for prefix in BOOKKEEPING)


def _topic_of(path: str) -> str | None:
    for parent in (znodes.BROKER_TOPICS, TOPIC_CONFIGS):
        if path.startswith(f"{parent}/"):
            return path[len(parent) + 1 :].partition("/")[0]
    return None


def _grown(then: Marks, now: Marks) -> Iterator[tuple[TopicPartition, LogMark]]:
    for key, mark in then.items():
        found = now.get(key)
        if found is mark or found == mark:
            continue
        named = f"{key[0]}-{key[1]}"
        if found is None or found.topic_id != mark.topic_id:
            raise CannotUndo(f"{named} has another log")
        if found.replica_count > 1:
            raise CannotUndo(f"{named} has grown, and has several replicas")
        if not _continues(mark, found):
            raise CannotUndo(f"records of {named} were deleted or compacted")
        yield key, mark


def _continues(mark: LogMark, found: LogMark) -> bool:
    """Whether all segments of then are still there, and only the last one may have grown."""
    *finished, (base_offset, size_bytes) = mark.segments
    count = len(finished)
    if len(found.segments) <= count:
        return False
    last = found.segments[count]
    return (
        found.log_start_offset == mark.log_start_offset
        and found.log_end_offset >= mark.log_end_offset
        and list(found.segments[:count]) == finished
        and last[0] == base_offset
        and last[1] >= size_bytes
    )
