"""Counts of what a broker has met, by name: for tests, the log and later for metrics.

A count only rises, and begins at zero with the broker.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from odradek.storage.directory.log_dirs import LogDirs
from odradek.storage.log.load_report import LoadReport

COMMITTED_RECORDS_LOST: Final = "committed_records_lost"
"""Offsets below the checkpointed high watermark that a recovery had to cut."""
BATCHES_CORRUPT: Final = "batches_corrupt"
"""Places in the logs at which a checksum or a header was found to be wrong."""
BYTES_SET_ASIDE: Final = "bytes_set_aside"
"""Bytes that a recovery took out of a log and kept beside it."""
INDEXES_REBUILT: Final = "indexes_rebuilt"
SEGMENTS_SCRUBBED: Final = "segments_scrubbed"
SEGMENTS_UNREADABLE: Final = "segments_unreadable"
REPLICAS_DAMAGED: Final = "replicas_damaged"
"""Replicas in whose log damage was found."""
REPLICAS_COPIED_ANEW: Final = "replicas_copied_anew"
"""Damaged replicas that were set aside, to be copied anew from their leaders."""
PARTITIONS_RECOVERED: Final = "partitions_recovered"
PARTITIONS_NOT_LOADED: Final = "partitions_not_loaded"
SUSPECT_REPLICAS_LED: Final = "suspect_replicas_led"
"""How often a replica began to lead that may lack committed records."""
SUSPECT_REPLICAS_WAITED: Final = "suspect_replicas_waited"
"""How often such a replica declined to lead."""
CONNECTIONS_DELAYED: Final = "connections_delayed"
"""How often a listener did not accept for a while because of max.connection.creation.rate."""
CONNECTIONS_REFUSED_BY_QUOTA: Final = "connections_refused_by_quota"
"""Connections from addresses that exceeded their connection_creation_rate."""
LOOP_STALLS: Final = "loop_stalls"
"""How often the event loop was seen to be held up for too long."""

_NAMES: Final = (
    COMMITTED_RECORDS_LOST,
    BATCHES_CORRUPT,
    BYTES_SET_ASIDE,
    INDEXES_REBUILT,
    SEGMENTS_SCRUBBED,
    SEGMENTS_UNREADABLE,
    REPLICAS_DAMAGED,
    REPLICAS_COPIED_ANEW,
    PARTITIONS_RECOVERED,
    PARTITIONS_NOT_LOADED,
    SUSPECT_REPLICAS_LED,
    SUSPECT_REPLICAS_WAITED,
    CONNECTIONS_DELAYED,
    CONNECTIONS_REFUSED_BY_QUOTA,
    LOOP_STALLS,
)


class Counters:
    """One broker's counts."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_NAMES, 0)

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def add(self, name: str, count: int = 1) -> None:
        """Count something that has happened.  The name must be one of this module's."""
        assert count >= 0
        self._counts[name] += count

    def all(self) -> Mapping[str, int]:
        """A live view of all counts."""
        return MappingProxyType(self._counts)

    def add_all_loaded(self, log_dirs: LogDirs) -> None:
        """Count what loading has met at the start."""
        for log in log_dirs.all_logs():
            if log.loaded is not None:
                self.add_loaded(log.loaded)
        unserved = sum(len(data_dir.unserved) for data_dir in log_dirs.online)
        self.add(PARTITIONS_NOT_LOADED, unserved)

    def add_loaded(self, report: LoadReport) -> None:
        """Count what loading one log has met."""
        self.add(COMMITTED_RECORDS_LOST, report.lost_committed)
        self.add(BATCHES_CORRUPT, report.bad_batches)
        self.add(BYTES_SET_ASIDE, report.set_aside_bytes)
        self.add(INDEXES_REBUILT, report.indexes_rebuilt)
        self.add(PARTITIONS_RECOVERED, int(report.is_recovered))
